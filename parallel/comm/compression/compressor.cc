#include "parallel/comm/compression/compressor.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/convert.h"
#include "base/dtype.h"

namespace ftune {
namespace {

constexpr float kInt8Most = 127.0f;

template <class T>
void Store(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof(T));
}
template <class T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// Orders magnitudes, with NaN above all.
uint32_t MagnitudeBits(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffu; }

class Bf16Compressor final : public Compressor {
 public:
  int64_t BytesFor(int64_t count) const override { return 2 * count; }
  void Compress(std::span<const float> values, std::byte* out) const override {
    ConvertFromF32(DType::kBF16, values.data(), std::ssize(values), out);
  }
  void Decompress(const std::byte* in, std::span<float> values) const override {
    ConvertToF32(DType::kBF16, in, std::ssize(values), values.data());
  }
};

// Scales of all blocks, then the codes of all elements.
class BlockCompressor : public Compressor {
 public:
  explicit BlockCompressor(int64_t block) : block_(block) { assert(block > 0 && block % 8 == 0); }

 protected:
  static constexpr int64_t kScaleBytes = sizeof(float);
  int64_t ScaleBytes(int64_t count) const { return (count + block_ - 1) / block_ * kScaleBytes; }

  // each(values of the block, its scale, where its codes begin): codes of one byte for `per_byte` elements.
  template <class Values, class Bytes, class Each>
  void ForBlocks(std::span<Values> values, Bytes* bytes, int64_t per_byte, const Each& each) const {
    Bytes* const codes = bytes + ScaleBytes(std::ssize(values));
    for (int64_t begin = 0, index = 0; begin < std::ssize(values); begin += block_, ++index) {
      const int64_t count = std::min(block_, std::ssize(values) - begin);
      each(values.subspan(begin, count), bytes + index * kScaleBytes, codes + begin / per_byte);
    }
  }

 private:
  int64_t block_;
};

class Int8Compressor final : public BlockCompressor {
 public:
  using BlockCompressor::BlockCompressor;

  int64_t BytesFor(int64_t count) const override { return ScaleBytes(count) + count; }

  void Compress(std::span<const float> values, std::byte* out) const override {
    ForBlocks(values, out, 1, [](std::span<const float> block, std::byte* scale, std::byte* codes) {
      uint32_t bits = 0;
      for (const float value : block) bits = std::max(bits, MagnitudeBits(value));
      const auto greatest = std::bit_cast<float>(bits);
      Store(greatest, scale);
      for (size_t i = 0; i < block.size(); ++i) {
        // A block that is not finite decodes as such by its scale; of 0, to 0.
        const float code =
            greatest > 0 && std::isfinite(greatest) ? block[i] / greatest * kInt8Most : kInt8Most;
        codes[i] = static_cast<std::byte>(static_cast<int8_t>(std::nearbyint(code)));
      }
    });
  }

  void Decompress(const std::byte* in, std::span<float> values) const override {
    ForBlocks(values, in, 1, [](std::span<float> block, const std::byte* scale, const std::byte* codes) {
      const auto greatest = Load<float>(scale);
      for (size_t i = 0; i < block.size(); ++i) {
        block[i] = static_cast<float>(static_cast<int8_t>(codes[i])) / kInt8Most * greatest;
      }
    });
  }
};

class OneBitCompressor final : public BlockCompressor {
 public:
  using BlockCompressor::BlockCompressor;

  int64_t BytesFor(int64_t count) const override { return ScaleBytes(count) + (count + 7) / 8; }

  void Compress(std::span<const float> values, std::byte* out) const override {
    ForBlocks(values, out, 8, [](std::span<const float> block, std::byte* scale, std::byte* codes) {
      double sum = 0;
      for (const float value : block) sum += std::abs(value);
      Store(static_cast<float>(sum / static_cast<double>(block.size())), scale);
      for (size_t i = 0; i < block.size(); i += 8) {
        unsigned bits = 0;
        for (size_t k = i; k < std::min(i + 8, block.size()); ++k)
          bits |= (std::signbit(block[k]) ? 1u : 0u) << (k - i);
        codes[i / 8] = static_cast<std::byte>(bits);
      }
    });
  }

  void Decompress(const std::byte* in, std::span<float> values) const override {
    ForBlocks(values, in, 8, [](std::span<float> block, const std::byte* scale, const std::byte* codes) {
      const auto mean = Load<float>(scale);
      for (size_t i = 0; i < block.size(); ++i) {
        block[i] = (static_cast<unsigned>(codes[i / 8]) >> (i % 8) & 1u) != 0 ? -mean : mean;
      }
    });
  }
};

// Places in ascending order, then their values.
class TopKCompressor final : public Compressor {
 public:
  explicit TopKCompressor(double share) : share_(share) { assert(share > 0 && share <= 1); }

  int64_t BytesFor(int64_t count) const override { return 2 * kBytes * Kept(count); }

  void Compress(std::span<const float> values, std::byte* out) const override {
    const int64_t kept = Kept(std::ssize(values));
    std::vector<uint32_t> places(values.size());
    std::iota(places.begin(), places.end(), 0);
    std::nth_element(places.begin(), places.begin() + kept, places.end(), [&](uint32_t a, uint32_t b) {
      const uint32_t of_a = MagnitudeBits(values[a]), of_b = MagnitudeBits(values[b]);
      return of_a != of_b ? of_a > of_b : a < b;
    });
    std::sort(places.begin(), places.begin() + kept);
    for (int64_t i = 0; i < kept; ++i) {
      Store(places[i], out + i * kBytes);
      Store(values[places[i]], out + (kept + i) * kBytes);
    }
  }

  void Decompress(const std::byte* in, std::span<float> values) const override {
    std::fill(values.begin(), values.end(), 0.0f);
    const int64_t kept = Kept(std::ssize(values));
    for (int64_t i = 0; i < kept; ++i) {
      // From another rank: a place that is none must not be written to.
      const auto place = Load<uint32_t>(in + i * kBytes);
      if (place < values.size()) values[place] = Load<float>(in + (kept + i) * kBytes);
    }
  }

 private:
  static constexpr int64_t kBytes = 4;  // of a place, and of a value

  int64_t Kept(int64_t count) const {
    return count == 0 ? 0
                      : std::clamp<int64_t>(
                            static_cast<int64_t>(std::ceil(share_ * static_cast<double>(count))), 1, count);
  }

  double share_;
};

}  // namespace

std::string_view Name(Compression kind) {
  switch (kind) {
    case Compression::kNone:
      return "none";
    case Compression::kBf16:
      return "bf16";
    case Compression::kInt8:
      return "int8";
    case Compression::kTopK:
      return "topk";
    case Compression::kOneBit:
      return "1bit";
  }
  return "";
}

std::unique_ptr<Compressor> MakeCompressor(const CompressionOptions& options) {
  switch (options.kind) {
    case Compression::kNone:
      break;
    case Compression::kBf16:
      return std::make_unique<Bf16Compressor>();
    case Compression::kInt8:
      return std::make_unique<Int8Compressor>(options.block);
    case Compression::kTopK:
      return std::make_unique<TopKCompressor>(options.top_share);
    case Compression::kOneBit:
      return std::make_unique<OneBitCompressor>(options.block);
  }
  assert(false && "kNone has no compressor");
  return nullptr;
}

}  // namespace ftune
