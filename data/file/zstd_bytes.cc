#include <zstd.h>
#include <zstd_errors.h>

#include "data/file/packed_input.h"
#include "data/file/unpacked_bytes.h"

namespace ftune {
namespace {

constexpr int kMaxWindowLog = 27;  // 128 MiB

class ZstdBytes : public ByteSource {
 public:
  ZstdBytes(std::string file, std::unique_ptr<ByteSource> packed)
      : input_(std::move(file), "Zstandard", std::move(packed)),
        stream_(ZSTD_createDStream(), ZSTD_freeDStream) {
    if (stream_) ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  }

  absl::StatusOr<size_t> Read(char* to, size_t size) override {
    if (!stream_) return input_.NeedsMemory("");
    for (;;) {
      FTUNE_RETURN_IF_ERROR(input_.Fill());
      if (input_.empty() && frame_ended_) return 0;
      const bool stuck = input_.empty();  // but the decoder may hold back what did not fit
      ZSTD_inBuffer in = {input_.data(), input_.size(), 0};
      ZSTD_outBuffer out = {to, size, 0};
      const size_t left = ZSTD_decompressStream(stream_.get(), &out, &in);
      if (ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge) {
        return input_.NeedsMemory("pack the file again without --long or --ultra");
      }
      if (ZSTD_isError(left)) return input_.Damaged(ZSTD_getErrorName(left));
      input_.Use(in.pos);
      frame_ended_ = left == 0;
      if (out.pos > 0) return out.pos;
      if (stuck && !frame_ended_) return input_.CutOff();
    }
  }

 private:
  PackedInput input_;
  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream_;
  bool frame_ended_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> UnpackZstd(std::string file, std::unique_ptr<ByteSource> packed) {
  return std::make_unique<ZstdBytes>(std::move(file), std::move(packed));
}

}  // namespace ftune
