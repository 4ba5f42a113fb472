#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "data/file/csv_record.h"
#include "data/file/json_row.h"
#include "data/file/text_place.h"
#include "data/source/block_reader.h"

namespace ftune {
namespace {

absl::StatusOr<OrderedJson> ParseCsvRow(std::string_view text, const CsvHeader& header,
                                        const RowPlace& place) {
  const std::vector<std::string>& columns = header.columns;
  FTUNE_ASSIGN_OR_RETURN(std::vector<std::string> fields, ParseCsvRecord(text, header.separator, place));
  if (fields.size() != columns.size()) {
    return RowError(place,
                    {.found = StrCat(fields.size(), fields.size() == 1 ? " field" : " fields"),
                     .expected = StrCat(columns.size(), " as in the header: ", StrJoin(columns, ", "))});
  }
  OrderedJson::object_t row;
  row.reserve(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) row.emplace_back(columns[i], std::move(fields[i]));
  return OrderedJson(std::move(row));
}

}  // namespace

absl::StatusOr<OrderedJson> ParseRow(const RowBlock& block, size_t row) {
  if (const auto bad = block.bad_rows.find(row); bad != block.bad_rows.end()) return bad->second;
  const std::string_view text = block.text(row);
  const RowPlace place = block.PlaceOf(row);
  if (block.encoding == RowBlock::Encoding::kJson) return ParseJsonRow(text, place, block.rows[row].column);
  FTUNE_RETURN_IF_ERROR(CheckUtf8(text, place, 1));
  FTUNE_RETURN_IF_ERROR(CheckNoNul(text, place));
  if (block.encoding == RowBlock::Encoding::kCsv) return ParseCsvRow(text, *block.header, place);
  return OrderedJson{{"text", std::string(text)}};
}

}  // namespace ftune
