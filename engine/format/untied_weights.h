// A tied model's weights with a head of their own.
#pragma once

#include <memory>

#include "engine/format/weight_source.h"

namespace ftune {

// The same tensors, and lm_head.weight with the bytes of the embedding.
std::unique_ptr<WeightSource> UntieHead(std::unique_ptr<WeightSource> weights);

}  // namespace ftune
