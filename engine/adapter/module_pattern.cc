#include "engine/adapter/module_pattern.h"

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

absl::StatusOr<ModulePattern> ModulePattern::Compile(const std::string& pattern) {
  // Alone first: "a)|(b" must not become valid within the parentheses added below.
  FTUNE_ASSIGN_OR_RETURN(Regex part, Regex::Compile(pattern));
  FTUNE_ASSIGN_OR_RETURN(Regex whole, Regex::Compile(StrCat("\\A(?:", pattern, ")\\z")));
  FTUNE_ASSIGN_OR_RETURN(Regex end, Regex::Compile(StrCat("\\A(?:.*\\.)?(?:", pattern, ")\\z")));
  return ModulePattern(std::move(part), std::move(whole), std::move(end));
}

bool ModulePattern::Matches(const Regex& regex, std::string_view module) {
  Regex::Matcher matcher(regex);
  size_t begin = 0, end = 0;
  return matcher.Find(module, 0, &begin, &end);
}

bool NamesModule(std::string_view name, std::string_view module) {
  if (!module.ends_with(name)) return false;
  return module.size() == name.size() || module[module.size() - name.size() - 1] == '.';
}

}  // namespace ftune
