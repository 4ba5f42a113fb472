#include "cmd/plan/open_scope.h"

#include "base/strings.h"

namespace ftune {

std::string Describe(const OpenScopes& scopes) {
  std::string text;
  for (const OpenScope* scope = scopes.get(); scope != nullptr; scope = scope->outer.get()) {
    std::string words = scope->name;
    if (scope->first >= 0) StrAppend(words, " ", scope->first);
    if (scope->last > scope->first) StrAppend(words, " to ", scope->last);
    text = text.empty() ? std::move(words) : StrCat(words, ", ", text);
  }
  return text.empty() ? "between phases" : text;
}

}  // namespace ftune
