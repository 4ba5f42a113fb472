// JSON Lines: every line that is not blank is a row. https://jsonlines.org
#pragma once

#include "data/file/row_scanner.h"

namespace ftune {

class JsonlScanner : public RowScanner {
 public:
  absl::StatusOr<Found> Find(std::string_view text, bool whole, RowBlock::Row& row) override;
  RowBlock::Encoding encoding() const override { return RowBlock::Encoding::kJson; }
  std::string_view row_name() const override { return "a line"; }
  std::string_view nothing() const override { return "only blank lines"; }
};

}  // namespace ftune
