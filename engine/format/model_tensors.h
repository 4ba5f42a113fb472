// A model in memory as tensors to be written: whole, merged with its adapter, or the adapter alone.
#pragma once

#include <vector>

#include "engine/backend/backend.h"
#include "engine/format/output_tensor.h"
#include "engine/model/model.h"

namespace ftune {

// The base parameters under their Hugging Face names. With a `lora_scale` other than 0, W + lora_scale * B A,
// summed in f32 and rounded once. `dtype` is f32, bf16 or f16. The callbacks use `backend` and `model`, which
// outlive them.
std::vector<OutputTensor> ModelTensors(Backend& backend, Stream stream, Model& model, DType dtype,
                                       double lora_scale);

// The adapter's A and B, f32.
std::vector<OutputTensor> AdapterTensors(Backend& backend, Stream stream, Model& model);

}  // namespace ftune
