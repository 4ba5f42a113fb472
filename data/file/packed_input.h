// The packed bytes that a decompressor works through.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "data/file/byte_source.h"
#include "data/source/row.h"

namespace ftune {

class PackedInput {
 public:
  PackedInput(std::string file, std::string name, std::unique_ptr<ByteSource> bytes)
      : file_(std::move(file)),
        name_(std::move(name)),
        bytes_(std::move(bytes)),
        buffer_(kBufferBytes, '\0') {}

  // Reads on where all was used; `*size` is then 0 only at the end.
  absl::Status Fill() {
    if (begin_ < end_) return absl::OkStatus();
    begin_ = 0;
    FTUNE_ASSIGN_OR_RETURN(end_, bytes_->Read(buffer_.data(), buffer_.size()));
    return absl::OkStatus();
  }
  bool empty() const { return begin_ == end_; }
  size_t size() const { return end_ - begin_; }
  const char* data() const { return buffer_.data() + begin_; }
  char* data() { return buffer_.data() + begin_; }
  void Use(size_t bytes) { begin_ += bytes; }

  absl::Status CutOff() const { return Error(name_ + " data that is cut off", kCopyAgain); }
  absl::Status Damaged(std::string_view why) const {
    return Error(name_ + " data that is damaged: " + std::string(why), kCopyAgain);
  }
  absl::Status NeedsMemory(std::string hint) const {
    return Error("unpacking the " + name_ + " data takes too much memory", std::move(hint));
  }

 private:
  static constexpr char kCopyAgain[] = "copy or download the file again";

  absl::Status Error(std::string message, std::string hint) const {
    return RowError({file_}, {.message = std::move(message), .hint = std::move(hint)});
  }

  static constexpr size_t kBufferBytes = size_t{256} << 10;

  std::string file_;
  std::string name_;
  std::unique_ptr<ByteSource> bytes_;
  std::string buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace ftune
