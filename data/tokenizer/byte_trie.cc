#include "data/tokenizer/byte_trie.h"

namespace ftune {

void ByteTrie::Add(std::string_view text, int32_t value, bool replace) {
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    uint32_t& child = i == 0 ? first_[static_cast<uint8_t>(text[0])] : children_[ChildKey(node, text[i])];
    if (child == 0) {
      child = static_cast<uint32_t>(values_.size());
      values_.push_back(kNone);
    }
    node = child;
  }
  if (node != 0 && (replace || values_[node] == kNone)) values_[node] = value;
}

}  // namespace ftune
