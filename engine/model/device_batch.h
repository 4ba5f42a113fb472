// A batch on the device, and what the layers derive from it.
#pragma once

#include <cstdint>
#include <vector>

#include "data/loader/batch.h"
#include "engine/backend/backend.h"
#include "engine/model/rope_table.h"

namespace ftune {

struct DeviceBatch {
  int64_t tokens = 0;
  Tensor ids;        // [1, tokens] i32
  Tensor positions;  // [1, tokens] i32: rows of the position tables
  // The rows whose next token is learned, and those tokens: the first trained_tokens entries of [1, tokens]
  // i32.
  Tensor trained_rows;
  Tensor trained_labels;
  int64_t trained_tokens = 0;
  int64_t first_token = 0;
  // Those in which something is trained: nothing depends on the others, the packs' unfilled tails among them.
  std::vector<AttentionSegment> segments;
};

DeviceBatch UploadBatch(Backend& backend, Stream stream, const Batch& batch, const PositionRows& rows);

// New tokens of one sequence for generation: no labels, attending to a cache of the `cached` tokens before
// them. `row_offset` is that of PositionRows for the whole text.
DeviceBatch UploadTokens(Backend& backend, Stream stream, const std::vector<int32_t>& ids, int64_t cached,
                         int64_t row_offset);

}  // namespace ftune
