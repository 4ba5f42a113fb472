#include "engine/format/spm_merges.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "base/strings.h"

namespace ftune {
namespace {

struct Merge {
  std::string_view left;
  std::string_view right;
  float score = 0;
  int64_t left_chars = 0;
  int64_t right_chars = 0;
  size_t left_id = 0;
  size_t right_id = 0;
};

bool StartsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

int64_t CountCharacters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), StartsCharacter);
}

}  // namespace

std::vector<std::string> SentencePieceMerges(std::span<const ScoredPiece> pieces) {
  std::unordered_map<std::string_view, size_t> ids;
  for (const ScoredPiece& piece : pieces) ids.emplace(piece.text, piece.id);
  std::vector<Merge> merges;
  for (const ScoredPiece& piece : pieces) {
    const size_t first = merges.size();
    for (size_t cut = 1; cut < piece.text.size(); ++cut) {
      if (!StartsCharacter(piece.text[cut])) continue;
      const auto left = ids.find(piece.text.substr(0, cut));
      if (left == ids.end()) continue;
      const auto right = ids.find(piece.text.substr(cut));
      if (right == ids.end()) continue;
      merges.push_back({.left = left->first,
                        .right = right->first,
                        .score = piece.score,
                        .left_chars = CountCharacters(left->first),
                        .right_chars = CountCharacters(right->first),
                        .left_id = left->second,
                        .right_id = right->second});
    }
    std::sort(merges.begin() + first, merges.end(), [](const Merge& a, const Merge& b) {
      return std::tie(a.left_id, a.right_id) < std::tie(b.left_id, b.right_id);
    });
  }
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    return std::tie(a.score, a.left_chars, a.right_chars) > std::tie(b.score, b.left_chars, b.right_chars);
  });
  std::vector<std::string> lines;
  lines.reserve(merges.size());
  for (const Merge& merge : merges) lines.push_back(StrCat(merge.left, " ", merge.right));
  return lines;
}

}  // namespace ftune
