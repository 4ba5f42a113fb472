// A model in memory as tensors to be written: whole, merged with its adapter, or the adapter alone. Tensors
// are global: where ranks of the tensor axis hold slices, all of them fill the same tensors in the same
// order, and each gets the whole. Of a model that is here in part they are that part's (ranked_write.h).
#pragma once

#include <vector>

#include "engine/adapter/lora_targets.h"
#include "engine/backend/backend.h"
#include "engine/format/output_tensor.h"
#include "engine/model/model.h"

namespace ftune {

// The base parameters under their Hugging Face names; with `merged`, as the adapter makes them: computed in
// f32 and rounded once. `dtype` is f32, bf16 or f16. The callbacks use what they are given here, which
// outlives them.
std::vector<OutputTensor> ModelTensors(Backend& backend, Stream stream, Model& model, DType dtype,
                                       const LoraTargets* merged);

// The adapter's parameters and those of modules_to_save, f32, as PEFT shapes them: of a tied pair that
// is saved, both ends.
std::vector<OutputTensor> AdapterTensors(Backend& backend, Stream stream, Model& model,
                                         const LoraTargets& targets);

}  // namespace ftune
