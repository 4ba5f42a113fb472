// How a model's dimensions are cut over the tensor axis, and for which sizes of it they can be.
#pragma once

#include "absl/status/status.h"
#include "engine/model/config.h"
#include "parallel/placement.h"

namespace ftune {

// An error, about the recipe's parallel.tensor, where `tensor` ranks cannot share the model: it names the
// sizes that can.
absl::Status CheckTensorSplit(const ModelConfig& config, int tensor);

// What the rank with the most has, over the mean of all: 1 where all have as much.
struct TensorShares {
  double heads = 1.0;
  double intermediate = 1.0;
};
TensorShares LargestTensorShares(const ModelConfig& config, int tensor);

// Elements of all heads' queries; of their keys (or values), which ranks share where they are more than
// those. Both may be uneven: the queries of a key/value head are on the rank that has it.
Dimension QueryDimension(const ModelConfig& config, const AxisPosition& position);
Dimension KeyDimension(const ModelConfig& config, const AxisPosition& position);
// Rows of q, then k, then v.
Dimension QkvDimension(const ModelConfig& config, const AxisPosition& position);
// May be uneven.
Dimension IntermediateDimension(const ModelConfig& config, const AxisPosition& position);
// Rows of gate, then up.
Dimension GateUpDimension(const ModelConfig& config, const AxisPosition& position);
// May be uneven.
Dimension VocabularyDimension(const ModelConfig& config, const AxisPosition& position);

}  // namespace ftune
