// Samples laid out as the tokens, positions, labels and segments of a batch.
#pragma once

#include <cstdint>
#include <span>

#include "data/loader/batch.h"
#include "data/store/token_store.h"

namespace ftune {

// An empty batch: ids 0, nothing trained, no segments yet.
Batch BlankBatch(int64_t packs, int64_t capacity, int64_t first_token);

// Fills the next pack (packs are filled in order) with samples side by side: each a segment with positions
// from 0, and as labels the next token where that is trained. The rest of the pack becomes a segment of its
// own. The samples fit.
void FillPack(Batch& batch, int64_t pack, std::span<const std::span<const StoredToken>> samples);

}  // namespace ftune
