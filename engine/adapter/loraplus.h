// LoRA+ (Hayou et al., "LoRA+: efficient low rank adaptation of large models", 2024): B learns faster than A.
#pragma once

#include <vector>

#include "engine/model/parameter_store.h"

namespace ftune {

struct LoraPlusOptions {
  double ratio = 16.0;             // learning rate of B, and of vectors, over that of A
  double embedding_factor = 1e-2;  // of the learning rate, for an adapter on the embedding
};

// Sets Parameter::lr_factor, as peft/optimizers/loraplus.py groups parameters. Before the optimizer is made.
void SetLoraPlusRates(const std::vector<Parameter*>& parameters, const LoraPlusOptions& options);

}  // namespace ftune
