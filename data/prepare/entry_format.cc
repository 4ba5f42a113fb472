#include "data/prepare/entry_format.h"

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

EntryFormat::EntryFormat(RowFormat given, BadRows bad_rows) : bad_rows_(bad_rows) {
  if (given != RowFormat::kAuto) format_ = given;
}

absl::StatusOr<RowFormat> EntryFormat::Of(const RowBlock& block) {
  if (block.encoding == RowBlock::Encoding::kDocument) {
    if (!format_ || *format_ == RowFormat::kText) return RowFormat::kText;
    return RowError({block.file}, {.found = StrCat("format ", RowFormatName(*format_), " for a document"),
                                   .expected = "format text"});
  }
  if (!format_) FTUNE_RETURN_IF_ERROR(Detect(block));
  // Where no row of the block shows its format, each is a bad row by any.
  return format_.value_or(RowFormat::kMessages);
}

absl::Status EntryFormat::Detect(const RowBlock& block) {
  for (size_t row = 0; row < block.rows.size(); ++row) {
    const RowPlace place = block.PlaceOf(row);
    const auto detect = [&]() -> absl::StatusOr<RowFormat> {
      FTUNE_ASSIGN_OR_RETURN(const OrderedJson parsed, ParseRow(block, row));
      return DetectRowFormat(parsed, place);
    };
    const absl::StatusOr<RowFormat> format = detect();
    if (format.ok()) {
      format_ = *format;
      return CheckRowFormat(*format, place);
    }
    if (bad_rows_ == BadRows::kError) return format.status();
  }
  return absl::OkStatus();
}

}  // namespace ftune
