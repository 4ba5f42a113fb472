#include "data/file/peekable_bytes.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace ftune {

absl::StatusOr<std::string_view> PeekableBytes::Peek(size_t size) {
  peeked_.erase(0, begin_);
  begin_ = 0;
  while (peeked_.size() < size) {
    const size_t have = peeked_.size();
    peeked_.resize(size);
    const absl::StatusOr<size_t> read = source_->Read(peeked_.data() + have, size - have);
    peeked_.resize(have + read.value_or(0));
    if (!read.ok()) return read.status();
    if (*read == 0) break;
  }
  return std::string_view(peeked_).substr(0, size);
}

absl::StatusOr<size_t> PeekableBytes::Read(char* to, size_t size) {
  const size_t left = peeked_.size() - begin_;
  if (left == 0) return source_->Read(to, size);
  const size_t count = std::min(left, size);
  std::memcpy(to, peeked_.data() + begin_, count);
  begin_ += count;
  return count;
}

}  // namespace ftune
