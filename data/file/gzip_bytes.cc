#include <zlib.h>

#include <algorithm>
#include <limits>

#include "data/file/packed_input.h"
#include "data/file/unpacked_bytes.h"

namespace ftune {
namespace {

class GzipBytes : public ByteSource {
 public:
  GzipBytes(std::string file, std::unique_ptr<ByteSource> packed)
      : input_(std::move(file), "gzip", std::move(packed)) {}
  GzipBytes(const GzipBytes&) = delete;
  GzipBytes& operator=(const GzipBytes&) = delete;
  ~GzipBytes() override {
    if (ready_) inflateEnd(&stream_);
  }

  absl::StatusOr<size_t> Read(char* to, size_t size) override {
    size = std::min<size_t>(size, std::numeric_limits<uInt>::max());
    for (;;) {
      FTUNE_RETURN_IF_ERROR(input_.Fill());
      if (!within_member_) {
        FTUNE_ASSIGN_OR_RETURN(const bool member, BeginMember());
        if (!member) return 0;
      }
      FTUNE_ASSIGN_OR_RETURN(const size_t count, Inflate(to, size));
      if (count > 0) return count;
    }
  }

 private:
  // False at the end.
  absl::StatusOr<bool> BeginMember() {
    while (any_member_ && !input_.empty() && *input_.data() == 0) {
      padding_ = true;
      input_.Use(1);
      FTUNE_RETURN_IF_ERROR(input_.Fill());
    }
    if (input_.empty()) return false;
    if (padding_ || (any_member_ && *input_.data() != '\x1F'))
      return input_.Damaged("something stands behind its end");
    // 15: the largest window; 16: with gzip's header and checksum.
    const int result = ready_ ? inflateReset(&stream_) : inflateInit2(&stream_, 15 + 16);
    if (result != Z_OK) return input_.NeedsMemory("");
    ready_ = within_member_ = any_member_ = true;
    return true;
  }

  absl::StatusOr<size_t> Inflate(char* to, size_t size) {
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(size);
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(input_.size());
    const int result = inflate(&stream_, Z_NO_FLUSH);
    const bool stuck = input_.empty();
    input_.Use(input_.size() - stream_.avail_in);
    const size_t count = size - stream_.avail_out;
    if (result == Z_STREAM_END) {
      within_member_ = false;
      return count;
    }
    if (result == Z_OK) return count;
    if (result == Z_BUF_ERROR && !stuck) return count;
    if (result == Z_BUF_ERROR) return input_.CutOff();
    return input_.Damaged(stream_.msg != nullptr ? stream_.msg : zError(result));
  }

  PackedInput input_;
  z_stream stream_{};
  bool ready_ = false;
  bool within_member_ = false;
  bool any_member_ = false;
  bool padding_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> UnpackGzip(std::string file, std::unique_ptr<ByteSource> packed) {
  return std::make_unique<GzipBytes>(std::move(file), std::move(packed));
}

}  // namespace ftune
