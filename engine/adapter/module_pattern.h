// Names of modules and parameters as PEFT's configurations match them: regular expressions, and suffixes from
// a dot on.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "data/tokenizer/regex.h"

namespace ftune {

// A regular expression in Python's syntax, as far as that is Oniguruma's too. PCRE2's limits hold, so a
// pattern that would match for ever matches nothing.
class ModulePattern {
 public:
  // The error's message says what is wrong with the pattern, but not where it stands.
  static absl::StatusOr<ModulePattern> Compile(const std::string& pattern);

  // re.fullmatch(pattern, module)
  bool MatchesWhole(std::string_view module) const { return Matches(whole_, module); }
  // re.match(rf"(.*\.)?({pattern})$", module): peft/utils/other.py, get_pattern_key
  bool MatchesEnd(std::string_view module) const { return Matches(end_, module); }
  // re.search(pattern, name)
  bool MatchesPart(std::string_view name) const { return Matches(part_, name); }

 private:
  ModulePattern(Regex part, Regex whole, Regex end)
      : part_(std::move(part)), whole_(std::move(whole)), end_(std::move(end)) {}
  static bool Matches(const Regex& regex, std::string_view module);

  Regex part_;
  Regex whole_;
  Regex end_;
};

// "self_attn.q_proj" names model.layers.0.self_attn.q_proj, and every module names itself.
bool NamesModule(std::string_view name, std::string_view module);

}  // namespace ftune
