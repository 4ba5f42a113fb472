// Bytes whose begin can be looked at before they are read.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/file/byte_source.h"

namespace ftune {

class PeekableBytes : public ByteSource {
 public:
  explicit PeekableBytes(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}

  // The next `size` bytes; fewer only at the end. Valid until the next call.
  absl::StatusOr<std::string_view> Peek(size_t size);
  // Leaves out `size` bytes, which were peeked at.
  void Skip(size_t size) { begin_ += size; }

  absl::StatusOr<size_t> Read(char* to, size_t size) override;

 private:
  std::unique_ptr<ByteSource> source_;
  std::string peeked_;
  size_t begin_ = 0;  // of what is not read yet, in peeked_
};

}  // namespace ftune
