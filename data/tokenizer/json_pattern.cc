#include "data/tokenizer/json_pattern.h"

#include "base/error.h"

namespace ftune {

absl::StatusOr<JsonPattern> ReadPattern(const JsonPart& part) {
  JsonPattern pattern;
  pattern.literal = !part.Member("String").IsNull();
  FTUNE_ASSIGN_OR_RETURN(pattern.text, part.String(pattern.literal ? "String" : "Regex"));
  if (pattern.literal && pattern.text.empty()) return part.Wrong("a pattern that is not empty");
  return pattern;
}

absl::StatusOr<Regex> CompilePattern(const JsonPart& part) {
  FTUNE_ASSIGN_OR_RETURN(const JsonPattern pattern, ReadPattern(part));
  auto regex = pattern.literal ? Regex::CompileLiteral(pattern.text) : Regex::Compile(pattern.text);
  if (regex.ok()) return regex;
  ErrorDetail detail = DetailOf(regex.status()).value_or(ErrorDetail{});
  detail.file = part.file();
  detail.key = part.Key("Regex");
  return DataError(std::move(detail));
}

}  // namespace ftune
