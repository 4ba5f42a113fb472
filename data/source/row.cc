#include "data/source/row.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_file.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr char kSupported[] = "messages, or prompt and completion, or text, or input_ids";

// What a row of each format has, the more telling first: a row with both messages and text is a conversation.
struct FormatKeys {
  RowFormat format;
  std::array<const char*, 2> keys;  // all of them; the second may be null
};
constexpr FormatKeys kFormatKeys[] = {
    {RowFormat::kMessages, {"messages", nullptr}},
    {RowFormat::kShareGpt, {"conversations", nullptr}},
    {RowFormat::kTokens, {"input_ids", nullptr}},
    {RowFormat::kSegments, {"segments", nullptr}},
    {RowFormat::kPromptCompletion, {"prompt", "completion"}},
    {RowFormat::kAlpaca, {"instruction", "output"}},
    {RowFormat::kText, {"text", nullptr}},
};

}  // namespace

absl::Status RowError(const RowPlace& place, RowProblem problem) {
  return DataError({.file = place.file,
                    .line = static_cast<int>(place.line),
                    .key = std::move(problem.key),
                    .message = std::move(problem.message),
                    .found = std::move(problem.found),
                    .expected = std::move(problem.expected),
                    .hint = std::move(problem.hint)});
}

std::string_view RowFormatName(RowFormat format) {
  switch (format) {
    case RowFormat::kAuto:
      return "auto";
    case RowFormat::kMessages:
      return "messages";
    case RowFormat::kPromptCompletion:
      return "prompt_completion";
    case RowFormat::kText:
      return "text";
    case RowFormat::kTokens:
      return "tokens";
    case RowFormat::kShareGpt:
      return "sharegpt";
    case RowFormat::kAlpaca:
      return "alpaca";
    case RowFormat::kSegments:
      return "segments";
  }
  return "";
}

absl::StatusOr<RowFormat> DetectRowFormat(const OrderedJson& row, const RowPlace& place) {
  for (const FormatKeys& candidate : kFormatKeys) {
    const bool has_all = std::all_of(candidate.keys.begin(), candidate.keys.end(),
                                     [&](const char* key) { return key == nullptr || row.contains(key); });
    if (has_all) return candidate.format;
  }
  return RowError(place, {.message = "the keys of this row show no known format",
                          .found = DescribeKeys(row),
                          .expected = kSupported});
}

absl::Status CheckRowFormat(RowFormat format, const RowPlace& place) {
  switch (format) {
    case RowFormat::kShareGpt:
    case RowFormat::kAlpaca:
    case RowFormat::kSegments:
      return RowError(place, {.message = StrCat("the format ", RowFormatName(format), " is not supported"),
                              .expected = StrCat("rows with ", kSupported),
                              .hint = "convert the rows to messages"});
    default:
      return absl::OkStatus();
  }
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
