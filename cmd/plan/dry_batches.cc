#include "cmd/plan/dry_batches.h"

#include "data/pack/packing.h"

namespace ftune {
namespace {

// Packs of which the first `text` tokens are one text; the rest is their tail, and does not train.
Batch BatchOf(int64_t packs, int64_t capacity, int64_t text) {
  Batch batch = {.packs = packs, .capacity = capacity};
  batch.ids.assign(batch.tokens(), 0);
  batch.labels.assign(batch.tokens(), kIgnoreLabel);
  for (int64_t begin = 0; begin < batch.tokens(); begin += capacity) {
    batch.segments.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(text)});
    const int64_t tail = capacity - text;
    if (tail > 0) {
      batch.segments.push_back({static_cast<int32_t>(begin + text), static_cast<int32_t>(tail)});
    }
    for (int64_t i = 0; i < text; ++i) batch.labels[begin + i] = 0;
    for (const int64_t length : {text, tail}) {
      for (int64_t i = 0; i < length; ++i) batch.positions.push_back(static_cast<int32_t>(i));
    }
  }
  batch.used_tokens = batch.trained_tokens = packs * text;
  return batch;
}

}  // namespace

std::vector<Batch> DryMicrobatches(const Recipe& recipe, PackContent content) {
  const int64_t longest = recipe.data.sequence_len;
  const bool full = content == PackContent::kFull;
  const int64_t capacity = full || recipe.data.packing ? longest : CapacityBucket(1, longest);
  const Batch batch = BatchOf(*recipe.train.micro_batch_size, capacity, full ? capacity : 1);
  return std::vector<Batch>(*recipe.train.gradient_accumulation_steps, batch);
}

}  // namespace ftune
