// A set of texts, to find those that a place in a text starts with.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace ftune {

class ByteTrie {
 public:
  static constexpr int32_t kNone = -1;

  // `value` ≥ 0. Of several values for one text the first stays, unless `replace`.
  void Add(std::string_view text, int32_t value, bool replace = false);

  // Calls visit(length, value) for each text that `text` starts with, the shortest first. The empty text is
  // never found.
  template <typename Visit>
  void ForEachPrefix(std::string_view text, const Visit& visit) const {
    if (text.empty()) return;
    uint32_t node = first_[static_cast<uint8_t>(text[0])];
    for (size_t length = 1; node != 0; ++length) {
      if (values_[node] != kNone) visit(length, values_[node]);
      if (length == text.size()) return;
      const auto child = children_.find(ChildKey(node, text[length]));
      node = child == children_.end() ? 0 : child->second;
    }
  }

 private:
  static uint64_t ChildKey(uint32_t node, char byte) {
    return static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte);
  }

  // Node 0 is the root, whose children stand in `first_`.
  std::array<uint32_t, 256> first_{};
  absl::flat_hash_map<uint64_t, uint32_t> children_;
  std::vector<int32_t> values_{kNone};  // by node
};

}  // namespace ftune
