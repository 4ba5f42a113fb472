// Hash tables keyed by text.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace ftune {

struct TextHash {
  size_t operator()(std::string_view text) const { return XXH3_64bits(text.data(), text.size()); }
};

// The keys' bytes belong to somebody else.
template <typename Value>
using TextMap = absl::flat_hash_map<std::string_view, Value, TextHash, std::equal_to<std::string_view>>;

}  // namespace ftune
