#include "data/source/dataset_fingerprint.h"

#include <algorithm>
#include <span>

#include "base/xxh3_stream.h"

namespace ftune {
namespace {

constexpr int64_t kMostInfos = int64_t{1} << 20;
constexpr int64_t kMostSamples = int64_t{1} << 12;

template <typename T>
void Add(Xxh3Stream& hash, std::span<const T> values) {
  hash.Add({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

// So that at most `most` are looked at.
int64_t Step(int64_t size, int64_t most) { return std::max<int64_t>(1, (size + most - 1) / most); }

}  // namespace

uint64_t FingerprintOf(const Dataset& dataset) {
  Xxh3Stream hash;
  const int64_t size = dataset.size();
  Add(hash, std::span<const int64_t>(&size, 1));
  for (int64_t i = 0; i < size; i += Step(size, kMostInfos)) {
    const SampleInfo info = dataset.info(i);
    const int64_t numbers[] = {info.length, info.trained_tokens, info.entry, info.row,
                               static_cast<int64_t>(info.row_hash)};
    Add(hash, std::span<const int64_t>(numbers));
  }
  for (int64_t i = 0; i < size; i += Step(size, kMostSamples)) {
    Add(hash, std::span<const StoredToken>(dataset.sample(i)));
  }
  return hash.Digest64();
}

}  // namespace ftune
