#include "base/shell_quote.h"

#include <algorithm>

#include "base/strings.h"

namespace ftune {
namespace {

// Means itself anywhere in a word. (Not = or ~: at its beginning a word with them means something else.)
bool IsPlain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("-_./:,+@%").find(c) != std::string_view::npos;
}

}  // namespace

std::string ShellQuote(std::string_view word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), IsPlain)) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string ShellQuote(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(ShellQuote(word));
  return StrJoin(quoted, " ");
}

}  // namespace ftune
