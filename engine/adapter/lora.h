// LoRA (Hu et al., "LoRA: low-rank adaptation of large language models", 2021): y += scale * B A dropout(x),
// and its kin: what ParameterPolicy needs to put an adapter on a model, and its initial values.
#pragma once

#include "engine/adapter/lora_targets.h"
#include "engine/model/adapter.h"
#include "engine/model/model.h"

namespace ftune {

// Parameters are named as in lora_names.h, trainable, f32.
AdapterFactories MakeLoraFactories(const LoraOptions& options, LoraTargets targets);

// PEFT's initial values: A uniform in ±1/sqrt(in) (kaiming_uniform with a = sqrt 5), B zero; on embeddings A
// zero and B normal; DoRA's magnitudes are the norms of the base's outputs. Each element of A and B is a
// function of (seed, parameter name, index).
void InitLoraValues(Backend& backend, Stream stream, Model& model, const LoraTargets& targets, uint64_t seed);

}  // namespace ftune
