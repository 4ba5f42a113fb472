// What runs on different meshes are compared by: the gradients and weights that a rank owns.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/model.h"

namespace ftune {

// Elements of a parameter, or of something of its shape, that this rank has.
struct StatePart {
  const Parameter* parameter = nullptr;
  int64_t begin = 0;  // in the parameter's local elements
  Tensor values;      // [1, n] f32, bf16 or f16
};

// Of the trainable parameters, in the order of the model; all of them on one rank.
std::vector<StatePart> OwnedGradients(Model& model);
std::vector<StatePart> OwnedValues(Model& model);

}  // namespace ftune
