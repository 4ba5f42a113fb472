// Making activations.
#pragma once

#include "engine/model/context.h"

namespace ftune {

inline Tensor NewActivation(const Context& context, int64_t rows, int64_t cols) {
  return context.backend.Allocate(rows, cols, Category::kActivations);
}

inline Tensor Copy(const Context& context, const Tensor& x) {
  const Tensor y = NewActivation(context, x.rows(), x.cols());
  context.backend.Convert(context.stream, x, y);
  return y;
}

}  // namespace ftune
