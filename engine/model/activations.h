// Making activations, and bringing those of all ranks together.
#pragma once

#include "engine/model/context.h"
#include "engine/model/tensor_axis.h"

namespace ftune {

inline Tensor NewActivation(const Context& context, int64_t rows, int64_t cols) {
  return context.backend.Allocate(rows, cols, Category::kActivations);
}

inline Tensor Copy(const Context& context, const Tensor& x) {
  const Tensor y = NewActivation(context, x.rows(), x.cols());
  context.backend.Convert(context.stream, x, y);
  return y;
}

// The batch's rows, of those of them that this rank has under sequence parallelism; otherwise `own`.
inline Tensor Gathered(const Context& context, const TensorAxis& axis, const Tensor& own) {
  return axis.Gathered(context.backend, context.stream, own, context.batch.tokens);
}

}  // namespace ftune
