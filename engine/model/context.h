// What a block's call is given: the device, the batch, and the coordinates of this step.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/model/device_batch.h"

namespace ftune {

// Keys and values of one decoder layer for generation: [capacity, kv_heads * head_dim] each, `length` rows
// filled.
struct KvCache {
  Tensor keys;
  Tensor values;
};

struct Context {
  Backend& backend;
  Stream stream;
  const DeviceBatch& batch;

  bool training = false;  // dropout is on, the head makes gradients
  uint64_t seed = 0;
  uint64_t step = 0;
  float loss_scale = 1.0f;  // 1 ÷ trained tokens of the global batch: the gradient of the one loss
  float label_smoothing = 0.0f;
  Tensor loss;  // [1, 1] f64: the head adds its sum of token losses

  // Where a layer's input is not all of the batch's rows in order but some of them (the head's): their
  // numbers, [1, rows] i32.
  Tensor picked_rows = {};

  std::vector<KvCache>* cache = nullptr;  // one per decoder layer, in generation
  int64_t cached = 0;                     // rows already in the cache
};

}  // namespace ftune
