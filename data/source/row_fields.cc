#include "data/source/row_fields.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

const std::vector<std::string>& ColumnNames() {
  static const std::vector<std::string> names = {
      "messages", "role",      "content",    "tool_calls",     "train",   "weight", "system",
      "tools",    "prompt",    "completion", "instruction",    "input",   "output", "history",
      "text",     "input_ids", "labels",     "attention_mask", "segments"};
  return names;
}

absl::Status CheckNoNulInField(std::string_view text, const std::string& key, const RowPlace& place) {
  const size_t nul = text.find('\0');
  if (nul == std::string_view::npos) return absl::OkStatus();
  return RowError(place, {.key = key,
                          .message = StrCat("a NUL character at byte ", nul + 1, " of the text"),
                          .expected = "text",
                          .hint = "remove it from the data"});
}

std::string RowFields::NameOf(const std::string& column) const {
  const auto mapped = mapping_.columns.find(column);
  return mapped == mapping_.columns.end() ? column : mapped->second;
}

const OrderedJson* RowFields::Find(const std::string& column) const {
  const auto field = row_.find(NameOf(column));
  return field == row_.end() || field->is_null() ? nullptr : &*field;
}

absl::Status RowFields::Error(const std::string& column, RowProblem problem) const {
  problem.key = NameOf(column) + problem.key;
  return RowError(place_, std::move(problem));
}

absl::Status RowFields::Missing(const std::string& column) const {
  const std::string name = NameOf(column);
  return RowError(
      place_, {.message = StrCat("the row has no ", name), .found = DescribeKeys(row_), .expected = name});
}

absl::StatusOr<std::string> RowFields::Text(const std::string& column) const {
  const OrderedJson* field = Find(column);
  if (field == nullptr && !row_.contains(NameOf(column))) return Missing(column);
  if (field == nullptr || !field->is_string()) {
    return Error(column, {.found = field ? DescribeValue(*field) : "null", .expected = "a string"});
  }
  const std::string& text = field->get_ref<const std::string&>();
  FTUNE_RETURN_IF_ERROR(CheckNoNulInField(text, NameOf(column), place_));
  return text;
}

absl::StatusOr<std::string> RowFields::TextOr(const std::string& column) const {
  if (Find(column) == nullptr) return std::string();
  return Text(column);
}

absl::StatusOr<OrderedJson> RowFields::List(const std::string& column) const {
  const OrderedJson* field = Find(column);
  if (field == nullptr && !row_.contains(NameOf(column))) return Missing(column);
  if (field != nullptr && field->is_array()) return *field;
  if (field != nullptr && field->is_string()) {
    std::optional<OrderedJson> parsed = ParseOrderedJson(field->get_ref<const std::string&>());
    if (parsed && parsed->is_array()) return *std::move(parsed);
  }
  return Error(column, {.found = field ? DescribeValue(*field) : "null", .expected = "a list"});
}

}  // namespace ftune
