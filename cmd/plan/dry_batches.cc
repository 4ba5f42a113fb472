#include "cmd/plan/dry_batches.h"

namespace ftune {
namespace {

Batch FullBatch(int64_t packs, int64_t capacity) {
  Batch batch = {.packs = packs, .capacity = capacity};
  for (int64_t pack = 0; pack < packs; ++pack) {
    batch.segments.push_back({static_cast<int32_t>(pack * capacity), static_cast<int32_t>(capacity)});
    for (int64_t i = 0; i < capacity; ++i) batch.positions.push_back(static_cast<int32_t>(i));
  }
  batch.ids.assign(batch.tokens(), 0);
  batch.labels.assign(batch.tokens(), 0);
  batch.used_tokens = batch.trained_tokens = batch.tokens();
  return batch;
}

}  // namespace

std::vector<Batch> FullMicrobatches(const Recipe& recipe) {
  const Batch batch = FullBatch(*recipe.train.micro_batch_size, recipe.data.sequence_len);
  return std::vector<Batch>(*recipe.train.gradient_accumulation_steps, batch);
}

}  // namespace ftune
