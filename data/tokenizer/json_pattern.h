// {"String": …} or {"Regex": …}, as parts of tokenizer.json have patterns.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "data/tokenizer/json_part.h"
#include "data/tokenizer/regex.h"

namespace ftune {

struct JsonPattern {
  bool literal = false;
  std::string text;  // not empty if literal
};

// `part` is the pattern itself.
absl::StatusOr<JsonPattern> ReadPattern(const JsonPart& part);
absl::StatusOr<Regex> CompilePattern(const JsonPart& part);

}  // namespace ftune
