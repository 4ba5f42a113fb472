// Cosines and sines of the rotary position embedding for positions 0 … length - 1.
#pragma once

#include <vector>

#include "engine/backend/backend.h"
#include "engine/model/config.h"

namespace ftune {

// Rotary frequencies of a head, one per pair, scaled as the configuration says (transformers'
// modeling_rope_utils: _compute_default_rope_parameters, _compute_linear_scaling_…, _compute_llama3_…).
std::vector<double> RopeFrequencies(const RopeConfig& config, int64_t head_dim);

// [length, head_dim]: head_dim / 2 cosines, then as many sines.
Tensor MakeRopeTable(Backend& backend, Stream stream, const RopeConfig& config, int64_t head_dim,
                     int64_t length);

}  // namespace ftune
