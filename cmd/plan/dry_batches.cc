#include "cmd/plan/dry_batches.h"

#include <algorithm>
#include <cmath>

#include "data/pack/packing.h"

namespace ftune {
namespace {

// The last of them train.
void AddText(int64_t length, int64_t trained, Batch& batch) {
  const auto begin = static_cast<int64_t>(batch.positions.size());
  batch.segments.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(length)});
  for (int64_t i = 0; i < length; ++i) batch.positions.push_back(static_cast<int32_t>(i));
  batch.labels.insert(batch.labels.end(), length - trained, kIgnoreLabel);
  batch.labels.insert(batch.labels.end(), trained, 0);
}

// Packs of texts, in each of which as large a share trains, and a tail that does not.
Batch BatchOf(int64_t packs, const TypicalPack& pack) {
  Batch batch = {.packs = packs, .capacity = pack.capacity};
  batch.ids.assign(batch.tokens(), 0);
  const double share = static_cast<double>(pack.trained) / static_cast<double>(pack.used);
  for (int64_t i = 0; i < packs; ++i) {
    for (int64_t begin = 0; begin < pack.used; begin += pack.text) {
      const int64_t length = std::min(pack.text, pack.used - begin);
      const int64_t trained = std::max<int64_t>(1, std::llround(share * static_cast<double>(length)));
      AddText(length, trained, batch);
      batch.trained_tokens += trained;
    }
    if (pack.capacity > pack.used) AddText(pack.capacity - pack.used, 0, batch);
  }
  batch.used_tokens = packs * pack.used;
  return batch;
}

TypicalPack PackOf(const Recipe& recipe, PackContent content) {
  const int64_t longest = recipe.data.sequence_len;
  if (content == PackContent::kFull) return {longest, longest, longest, longest};
  return {recipe.data.packing ? longest : CapacityBucket(1, longest), 1, 1, 1};
}

}  // namespace

std::vector<Batch> DryMicrobatches(const Recipe& recipe, PackContent content,
                                   const std::optional<TypicalPack>& typical) {
  const Batch batch = BatchOf(*recipe.train.micro_batch_size, typical.value_or(PackOf(recipe, content)));
  return std::vector<Batch>(*recipe.train.gradient_accumulation_steps, batch);
}

}  // namespace ftune
