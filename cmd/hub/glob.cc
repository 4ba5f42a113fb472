#include "cmd/hub/glob.h"

#include <fnmatch.h>

#include <string>
#include <vector>

namespace ftune {
namespace {

using Parts = std::vector<std::string>;

Parts Split(std::string_view text) {
  Parts parts;
  while (true) {
    const size_t end = text.find('/');
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

bool MatchesGlob(std::string_view pattern, std::string_view path) {
  const Parts wanted = Split(pattern), names = Split(path);
  // reach[j]: the pattern's parts so far match the first j names.
  std::vector<bool> reach(names.size() + 1, false);
  reach[0] = true;
  for (size_t i = 0; i < wanted.size(); ++i) {
    std::vector<bool> next(names.size() + 1, false);
    for (size_t j = 0; j <= names.size(); ++j) {
      if (!reach[j]) continue;
      if (wanted[i] == "**") {
        // Any folders; as the last part, any file below too.
        for (size_t k = j; k <= names.size(); ++k) next[k] = true;
      } else if (j < names.size() && fnmatch(wanted[i].c_str(), names[j].c_str(), 0) == 0) {
        next[j + 1] = true;
      }
    }
    reach = std::move(next);
  }
  return reach[names.size()];
}

}  // namespace ftune
