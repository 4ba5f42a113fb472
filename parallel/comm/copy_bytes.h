// Copying between buffers whose alignment differs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ftune {

// As memcpy; nothing where both are the same. For pieces that stay in the cache: glibc's way with more than a
// few KiB is slow where the two are not aligned alike, down to a tenth.
inline void CopyBytes(const std::byte* from, int64_t bytes, std::byte* to) {
  constexpr int64_t kPiece = 2048;
  constexpr int64_t kCached = 1 << 20;
  if (bytes <= 0 || from == to) return;
  if ((from - to) % 64 == 0 || bytes > kCached) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  for (int64_t begin = 0; begin < bytes; begin += kPiece) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(std::min(kPiece, bytes - begin)));
  }
}

}  // namespace ftune
