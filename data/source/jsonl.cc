#include "data/source/jsonl.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json_file.h"
#include "base/strings.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

constexpr char kExpected[] = "JSON Lines, one object a line";

// Containers that people hand over in place of JSON Lines.
struct Magic {
  std::string_view bytes;
  const char* name;
  const char* hint;
};
constexpr Magic kMagics[] = {
    {"PAR1", "a Parquet file", "write it out as JSON Lines"},
    {"ARROW1", "an Arrow file", "write it out as JSON Lines"},
    {"\x1f\x8b", "a gzip file", "unpack it"},
    {"\x28\xb5\x2f\xfd", "a Zstandard file", "unpack it"},
    {"PK\x03\x04", "a zip file", "unpack it"},
};

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

// Why `text` is not accepted as JSON.
absl::Status ExplainJson(std::string_view text, const RowPlace& place) {
  const absl::StatusOr<nlohmann::json> parsed = ParseJson(text, place.file);
  const auto detail = DetailOf(parsed.status());
  return RowError(place, {.message = detail ? detail->message : "not valid JSON", .expected = kExpected});
}

}  // namespace

absl::StatusOr<std::string_view> WithoutByteOrderMark(std::string_view text, const RowPlace& place) {
  if (text.starts_with("\xEF\xBB\xBF")) return text.substr(3);
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return RowError(place, {.found = "UTF-16", .expected = "UTF-8", .hint = "convert the file"});
  }
  return text;
}

absl::Status CheckUtf8(std::string_view text, const RowPlace& place) {
  size_t bad = 0;
  const size_t valid = ValidUtf8Prefix(text, 0, &bad);
  if (valid == text.size()) return absl::OkStatus();
  const std::string_view before = text.substr(0, valid);
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  const int64_t line = place.line + std::count(before.begin(), before.end(), '\n');
  return RowError({place.file, line},
                  {.message = StrCat("not UTF-8 at byte ", valid - line_start + 1, " of the line"),
                   .expected = "UTF-8",
                   .hint = "convert the file"});
}

absl::StatusOr<JsonlFile> JsonlFile::Open(const std::filesystem::path& path) {
  FTUNE_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  JsonlFile file(std::move(mapped));
  const RowPlace place{path.string()};
  for (const Magic& magic : kMagics) {
    if (file.file_.text().starts_with(magic.bytes)) {
      return RowError(place, {.found = magic.name, .expected = kExpected, .hint = magic.hint});
    }
  }
  FTUNE_ASSIGN_OR_RETURN(std::string_view rest, WithoutByteOrderMark(file.file_.text(), place));
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    const std::string_view text = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (!IsBlank(text)) file.lines_.push_back({number, text});
  }
  if (file.lines_.empty()) {
    return RowError(place, {.found = file.file_.text().empty() ? "an empty file" : "only blank lines",
                            .expected = kExpected});
  }
  const std::string_view first = file.lines_.front().text;
  if (first[first.find_first_not_of(" \t")] == '[') {
    return RowError(file.PlaceOf(file.lines_.front()),
                    {.found = "a JSON list", .expected = kExpected, .hint = "convert it: jq -c '.[]'"});
  }
  return file;
}

absl::StatusOr<OrderedJson> JsonlFile::Parse(const Line& line) const {
  const RowPlace place = PlaceOf(line);
  FTUNE_RETURN_IF_ERROR(CheckUtf8(line.text, place));
  std::optional<OrderedJson> row = ParseOrderedJson(line.text);
  if (!row) return ExplainJson(line.text, place);
  if (!row->is_object()) return RowError(place, {.found = DescribeValue(*row), .expected = kExpected});
  return *std::move(row);
}

}  // namespace ftune
