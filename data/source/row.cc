#include "data/source/row.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_file.h"
#include "base/strings.h"

namespace ftune {
absl::Status RowError(const RowPlace& place, RowProblem problem) {
  return DataError({.file = place.file,
                    .line = static_cast<int>(place.line),
                    .key = std::move(problem.key),
                    .message = std::move(problem.message),
                    .found = std::move(problem.found),
                    .expected = std::move(problem.expected),
                    .hint = std::move(problem.hint)});
}

std::optional<OrderedJson> ParseOrderedJson(std::string_view text) {
  constexpr int kMaxDepth = 256;
  bool too_deep = false;
  const auto watch = [&](int depth, OrderedJson::parse_event_t, OrderedJson&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  OrderedJson value = OrderedJson::parse(text, watch, /*allow_exceptions=*/false);
  if (too_deep || value.is_discarded()) return std::nullopt;
  return value;
}

std::string DescribeKeys(const OrderedJson& value) {
  constexpr size_t kMaxKeys = 20;
  if (!value.is_object()) return value.is_array() ? "a list" : DescribeValue(value);
  if (value.empty()) return "an object without keys";
  std::vector<std::string> keys;
  for (const auto& item : value.items()) {
    keys.push_back(keys.size() < kMaxKeys ? item.key() : "…");
    if (keys.size() > kMaxKeys) break;
  }
  return StrCat("the keys ", StrJoin(keys, ", "));
}

std::string DescribeValue(const OrderedJson& value) { return Excerpt(nlohmann::json(value)); }

}  // namespace ftune
