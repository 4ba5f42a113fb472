// Attention over segments, tiled with a running softmax, after Dao et al., "FlashAttention" (2022): no score
// matrix is stored. The key ranges of segments must not overlap in the backward pass.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/backend/ops.h"

namespace ftune::cpu {

// `workspace` has the bytes that attention_plan.h gives for the pool's threads.
void AttentionForward(ThreadPool& pool, const AttentionForwardArgs& args, const Tensor& workspace);
void AttentionBackward(ThreadPool& pool, const AttentionBackwardArgs& args, const Tensor& workspace);

}  // namespace ftune::cpu
