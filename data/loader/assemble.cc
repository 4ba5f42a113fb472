#include "data/loader/assemble.h"

#include <numeric>

namespace ftune {
namespace {

void AddSegment(Batch& batch, int64_t begin, int64_t length) {
  if (length == 0) return;
  batch.segments.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(length)});
  std::iota(batch.positions.begin() + begin, batch.positions.begin() + begin + length, 0);
}

}  // namespace

Batch BlankBatch(int64_t packs, int64_t capacity, int64_t first_token) {
  const auto tokens = static_cast<size_t>(packs * capacity);
  Batch batch;
  batch.packs = packs;
  batch.capacity = capacity;
  batch.first_token = first_token;
  batch.ids.assign(tokens, 0);
  batch.positions.assign(tokens, 0);
  batch.labels.assign(tokens, kIgnoreLabel);
  return batch;
}

void FillPack(Batch& batch, int64_t pack, std::span<const std::span<const StoredToken>> samples) {
  int64_t next = pack * batch.capacity;
  const int64_t end = next + batch.capacity;
  for (const std::span<const StoredToken> sample : samples) {
    const auto length = static_cast<int64_t>(sample.size());
    for (int64_t i = 0; i < length; ++i) {
      batch.ids[next + i] = sample[i].id();
      if (i == 0 || !sample[i].trained()) continue;
      batch.labels[next + i - 1] = sample[i].id();
      ++batch.trained_tokens;
    }
    AddSegment(batch, next, length);
    next += length;
    batch.used_tokens += length;
  }
  AddSegment(batch, next, end - next);
}

}  // namespace ftune
