// A row of a dataset: where it stands, what shape it has, and errors that say both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "data/template/chat_template.h"

namespace ftune {

struct RowPlace {
  std::string file;
  int64_t line = 0;  // 1-based; 0: the file as a whole
};

// What is wrong with a row: FILE:LINE: error: KEY: MESSAGE; found …, expected …; HINT.
struct RowProblem {
  std::string key;
  std::string message;
  std::string found;
  std::string expected;
  std::string hint;
};
absl::Status RowError(const RowPlace& place, RowProblem problem);

enum class RowFormat { kAuto, kMessages, kPromptCompletion, kText, kTokens, kShareGpt, kAlpaca, kSegments };

// Nothing where `text` is not JSON, or nested so deeply that walking it could exhaust the stack.
std::optional<OrderedJson> ParseOrderedJson(std::string_view text);

// "the keys a, b, c" for an error message; "an object without keys", "a list" … where there are none.
std::string DescribeKeys(const OrderedJson& value);

// JSON text of a value for an error message, shortened.
std::string DescribeValue(const OrderedJson& value);

}  // namespace ftune
