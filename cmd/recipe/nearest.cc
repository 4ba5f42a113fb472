#include "cmd/recipe/nearest.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"

namespace ftune {
namespace {

std::string Folded(std::string_view word) {
  std::string folded = Lower(word);
  std::replace(folded.begin(), folded.end(), '-', '_');
  return folded;
}

constexpr size_t kLongestWord = 64;  // nothing known is longer; keeps hostile keys cheap

}  // namespace

int EditDistance(std::string_view first, std::string_view second) {
  const std::string a = Folded(first), b = Folded(second);
  std::vector<int> before_last(b.size() + 1), last(b.size() + 1), current(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({last[j] + 1, current[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, current);
  }
  return last[b.size()];
}

bool IsMisspelling(std::string_view word, std::string_view candidate, int distance) {
  if (distance == 0) return true;
  const size_t shorter = std::min(word.size(), candidate.size());
  return shorter >= 3 && distance <= std::clamp(static_cast<int>(shorter) / 4, 1, 3);
}

std::optional<std::string> Nearest(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.size() > kLongestWord) return std::nullopt;
  std::optional<std::string> nearest;
  int least = 0;
  for (const std::string& candidate : candidates) {
    const int distance = EditDistance(word, candidate);
    if (!IsMisspelling(word, candidate, distance) || (nearest && distance >= least)) continue;
    nearest = candidate;
    least = distance;
  }
  return nearest;
}

}  // namespace ftune
