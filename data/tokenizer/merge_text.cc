#include "data/tokenizer/merge_text.h"

#include <string>

namespace ftune {

std::optional<BpeModel::Merge> FindMerge(std::string_view left, std::string_view right, size_t prefix,
                                         const Vocabulary& vocabulary) {
  if (right.size() < prefix) return std::nullopt;
  const auto left_id = vocabulary.Find(left);
  const auto right_id = vocabulary.Find(right);
  if (!left_id || !right_id) return std::nullopt;
  std::string joined(left);
  joined += right.substr(prefix);
  const auto result = vocabulary.Find(joined);
  if (!result) return std::nullopt;
  return BpeModel::Merge{*left_id, *right_id, *result};
}

std::optional<BpeModel::Merge> ParseMerge(std::string_view text, size_t prefix,
                                          const Vocabulary& vocabulary) {
  for (size_t space = text.find(' '); space != text.npos; space = text.find(' ', space + 1)) {
    const auto merge = FindMerge(text.substr(0, space), text.substr(space + 1), prefix, vocabulary);
    if (merge) return merge;
  }
  return std::nullopt;
}

}  // namespace ftune
