// What the rows of an entry look like: what it says, or what its first rows show.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "data/prepare/block_builder.h"
#include "data/source/block_reader.h"
#include "data/source/dataset.h"

namespace ftune {

class EntryFormat {
 public:
  // The entry outlives this. `say` is told of a format that the entry does not name.
  EntryFormat(const DatasetEntry& entry, BadRows bad_rows, std::function<void(const std::string&)> say)
      : entry_(entry), bad_rows_(bad_rows), say_(std::move(say)) {}

  // Of a block's rows; the blocks of the entry are asked about in order. By the first row, whose error is
  // that of the entry; where bad rows are skipped, by the first good one.
  absl::StatusOr<RowFormat> Of(const RowBlock& block);

 private:
  absl::Status Choose(const RowBlock& block);

  const DatasetEntry& entry_;
  BadRows bad_rows_;
  std::function<void(const std::string&)> say_;
  std::optional<RowFormat> format_;  // once it is known
};

}  // namespace ftune
