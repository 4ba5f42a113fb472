// The tokens of a model: text by id and id by text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/text_hash.h"

namespace ftune {

// More ids than any model has; a file with more is broken.
inline constexpr int64_t kMaxVocabulary = 1 << 24;

class Vocabulary {
 public:
  Vocabulary() = default;
  // texts[id]; "" where there is no token of that id. Of several ids with one text the lowest is found.
  explicit Vocabulary(std::vector<std::string> texts);
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  int32_t size() const { return static_cast<int32_t>(texts_.size()); }  // highest id + 1
  const std::string& Text(int32_t id) const { return texts_[id]; }      // 0 ≤ id < size()
  std::optional<int32_t> Find(std::string_view text) const;

 private:
  std::vector<std::string> texts_;
  TextMap<int32_t> ids_;  // keys lie in texts_
};

}  // namespace ftune
