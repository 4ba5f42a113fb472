// Lossy codes for gradients on slow links. What they lose is kept as a residual and sent later
// (compressed_reducer.h); without that, top-k and one bit do not converge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace ftune {

enum class Compression : uint8_t {
  kNone,
  kBf16,    // rounded to nearest, ties to even
  kInt8,    // the greatest magnitude of each block in f32, and value / greatest × 127 of each element
  kTopK,    // the greatest magnitudes with their places; of equal ones, the first. The rest is 0. Aji and
            // Heafield, "Sparse communication for distributed gradient descent", 2017
  kOneBit,  // the mean magnitude of each block in f32, and a sign of each element. Seide et al., "1-bit
            // stochastic gradient descent", 2014; the mean of magnitudes as in Tang et al., "1-bit Adam",
            // 2021
};
std::string_view Name(Compression kind);  // "int8", as recipes have it

struct CompressionOptions {
  Compression kind = Compression::kInt8;  // but kNone
  double top_share = 0.01;  // of the elements that top-k keeps, at least one; above 0, at most 1
  int64_t block = 256;      // elements with a scale of their own; a multiple of 8
};

// The same values give the same bytes. Where a value is not finite, one that is decoded is not either.
class Compressor {
 public:
  virtual ~Compressor() = default;
  // Of any `count` values, of which there are fewer than 2^32.
  virtual int64_t BytesFor(int64_t count) const = 0;
  // To BytesFor(values.size()) bytes at `out`, of any alignment.
  virtual void Compress(std::span<const float> values, std::byte* out) const = 0;
  virtual void Decompress(const std::byte* in, std::span<float> values) const = 0;
};

std::unique_ptr<Compressor> MakeCompressor(const CompressionOptions& options);

}  // namespace ftune
