// Regular expressions of tokenizer.json are in Oniguruma's syntax; PCRE2's is close to it, but not the same.
// Source: Oniguruma's doc/RE and doc/UNICODE_PROPERTIES, syntax ONIG_SYNTAX_ONIGURUMA.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace ftune {

// The pattern in PCRE2's syntax, for PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE. What differs and is translated:
// \h \v \s \w \b and their complements, \uHHHH, long names of properties, sets within sets and their
// intersection (&&), {n,m}+ (a repeated repeat, not a possessive one), {n}?, {,m}, (?m), and options without
// a group, whose reach ends differently. What cannot be translated is an error that names it.
absl::StatusOr<std::string> OnigurumaToPcre2(std::string_view pattern);

// A PCRE2 pattern that matches `text` itself.
std::string EscapeForPcre2(std::string_view text);

}  // namespace ftune
