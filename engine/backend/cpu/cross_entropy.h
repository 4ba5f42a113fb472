// The loss of a row of logits and its gradient, in place.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/backend/ops.h"

namespace ftune::cpu {

// What is not finite in a row makes its loss not finite.
void CrossEntropy(ThreadPool& pool, const CrossEntropyArgs& args);
// In steps, of some columns.
void CrossEntropyMax(ThreadPool& pool, const CrossEntropySliceArgs& args);
void CrossEntropySums(ThreadPool& pool, const CrossEntropySliceArgs& args);
void CrossEntropyLoss(ThreadPool& pool, const CrossEntropySliceArgs& args);

}  // namespace ftune::cpu
