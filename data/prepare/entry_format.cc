#include "data/prepare/entry_format.h"

#include "base/error.h"
#include "base/strings.h"
#include "data/source/row_shape.h"

namespace ftune {

absl::StatusOr<RowFormat> EntryFormat::Of(const RowBlock& block) {
  const RowFormat named = entry_.format;
  if (block.encoding == RowBlock::Encoding::kDocument) {
    if (named == RowFormat::kAuto || named == RowFormat::kText) return RowFormat::kText;
    return RowError({block.file}, {.found = StrCat("format ", RowFormatName(named), " for a document"),
                                   .expected = "format text"});
  }
  if (!format_) FTUNE_RETURN_IF_ERROR(Choose(block));
  // Where no row of the block shows its format, each is a bad row by any.
  return format_.value_or(RowFormat::kMessages);
}

absl::Status EntryFormat::Choose(const RowBlock& block) {
  for (size_t row = 0; row < block.rows.size(); ++row) {
    const auto choose = [&]() -> absl::StatusOr<RowFormat> {
      FTUNE_ASSIGN_OR_RETURN(const OrderedJson parsed, ParseRow(block, row));
      return ChooseRowFormat(parsed, entry_.format, entry_.mapping, block.PlaceOf(row));
    };
    const absl::StatusOr<RowFormat> format = choose();
    if (format.ok()) {
      format_ = *format;
      if (entry_.format == RowFormat::kAuto) {
        say_(StrCat(entry_.path, ": rows of the format ", RowFormatName(*format)));
      }
      return absl::OkStatus();
    }
    if (bad_rows_ == BadRows::kError) return format.status();
  }
  return absl::OkStatus();
}

}  // namespace ftune
