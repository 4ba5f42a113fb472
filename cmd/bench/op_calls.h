// Calls of the backend's ops as a step of training makes them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/backend/backend.h"

namespace ftune {

struct CallSizes {
  int64_t tokens = 0;  // rows of activations, of one text
  int64_t cols = 0;    // of a block's activations: a multiple of 64
};

// Forward and backward of ops of one class; of products one of these sizes. Operands are zeros; they live as
// long as the calls.
std::vector<std::function<void()>> CallsOf(OpClass op, Backend& backend, const CallSizes& sizes);

// Products whose smallest size is that, with a weight of that type: of an f32 weight, which is trained, the
// gradient's too.
std::vector<std::function<void()>> ProductCalls(Backend& backend, DType weight, int64_t smallest);

}  // namespace ftune
