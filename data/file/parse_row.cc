#include "base/error.h"
#include "data/file/row_text.h"
#include "data/source/block_reader.h"

namespace ftune {

absl::StatusOr<OrderedJson> ParseRow(const RowBlock& block, size_t row) {
  const std::string_view text = block.text(row);
  const RowPlace place = block.PlaceOf(row);
  const int64_t column = block.rows[row].column;
  switch (block.encoding) {
    case RowBlock::Encoding::kJson:
      return ParseJsonRow(text, place, column);
    case RowBlock::Encoding::kDocument:
    case RowBlock::Encoding::kCsv:
      break;
  }
  FTUNE_RETURN_IF_ERROR(CheckUtf8(text, place, column));
  FTUNE_RETURN_IF_ERROR(CheckNoNul(text, place, column));
  OrderedJson document;
  document["text"] = std::string(text);
  return document;
}

}  // namespace ftune
