// What the rows of an entry look like, where it does not say: what its first rows show.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "data/prepare/block_builder.h"
#include "data/source/block_reader.h"

namespace ftune {

class EntryFormat {
 public:
  // `given` is what the entry says.
  EntryFormat(RowFormat given, BadRows bad_rows);

  // Of a block's rows; the blocks of the entry are asked about in order. An error where the first row shows
  // none; where bad rows are skipped, the first good one decides.
  absl::StatusOr<RowFormat> Of(const RowBlock& block);

 private:
  absl::Status Detect(const RowBlock& block);

  BadRows bad_rows_;
  std::optional<RowFormat> format_;  // once it is known
};

}  // namespace ftune
