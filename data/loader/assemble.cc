#include "data/loader/assemble.h"

#include <algorithm>
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

void FillPack(Batch& batch, int64_t pack, std::span<const Sample* const> samples) {
  int64_t next = pack * batch.capacity;
  const int64_t end = next + batch.capacity;
  for (const Sample* sample : samples) {
    std::copy(sample->ids.begin(), sample->ids.end(), batch.ids.begin() + next);
    for (int64_t i = 1; i < sample->size(); ++i) {
      if (sample->trained[i]) batch.labels[next + i - 1] = sample->ids[i];
    }
    AddSegment(batch, next, sample->size());
    next += sample->size();
    batch.used_tokens += sample->size();
    batch.trained_tokens += sample->trained_tokens();
  }
  AddSegment(batch, next, end - next);
}

}  // namespace ftune
