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
  Tensor positions;  // [1, tokens] i32: rows of the model's position tables
  // With PositionPlan::per_text: a table of the batch's own, and each token's row in it.
  Tensor text_table;
  Tensor text_rows;
  // The rows whose next token is learned, and those tokens: the first trained_tokens entries of [1, tokens]
  // i32.
  Tensor trained_rows;
  Tensor trained_labels;
  int64_t trained_tokens = 0;
  int64_t first_token = 0;
  Tensor noise;  // [1, tokens] f32: amplitude of each token's noise in training; undefined: none
  // Those in which something is trained: nothing depends on the others, the packs' unfilled tails among them.
  std::vector<AttentionSegment> segments;
};

DeviceBatch UploadBatch(Backend& backend, Stream stream, const Batch& batch, const PositionPlan& positions);

// Amplitudes for DeviceBatch::noise: alpha ÷ √(length × hidden_size) for each token of a segment (Jain et
// al., "NEFTune: noisy embeddings improve instruction finetuning", 2023, algorithm 1).
Tensor UploadNoise(Backend& backend, Stream stream, const Batch& batch, float alpha, int64_t hidden_size);

// New tokens of one sequence for generation: no labels, attending to a cache of the `cached` tokens before
// them; the whole text may become `length` tokens.
DeviceBatch UploadTokens(Backend& backend, Stream stream, const std::vector<int32_t>& ids, int64_t cached,
                         int64_t length, const PositionPlan& positions);

}  // namespace ftune
