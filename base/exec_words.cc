#include "base/exec_words.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace ftune {

std::vector<char*> ExecPointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> ExecEnvironment(const std::vector<std::string>& changes) {
  const auto same_name = [](std::string_view a, std::string_view b) {
    return a.substr(0, a.find('=') + 1) == b.substr(0, b.find('=') + 1);
  };
  std::vector<std::string> all = changes;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const bool changed = std::any_of(changes.begin(), changes.end(),
                                     [&](const std::string& change) { return same_name(change, *variable); });
    if (!changed) all.emplace_back(*variable);
  }
  return all;
}

}  // namespace ftune
