#include "data/tokenizer/vocabulary.h"

namespace ftune {

Vocabulary::Vocabulary(std::vector<std::string> texts) : texts_(std::move(texts)) {
  ids_.reserve(texts_.size());
  for (size_t id = 0; id < texts_.size(); ++id) {
    if (!texts_[id].empty()) ids_.emplace(texts_[id], static_cast<int32_t>(id));
  }
}

std::optional<int32_t> Vocabulary::Find(std::string_view text) const {
  const auto found = ids_.find(text);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

}  // namespace ftune
