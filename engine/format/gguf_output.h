// Writes a model as one GGUF file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/format/hf_model.h"
#include "engine/format/output_tensor.h"

namespace ftune {

// The types that the matrices of a GGUF file are written in: f32, f16, bf16, q8_0, q4_0, q4_k.
bool IsGgufOutputType(DType dtype);

// The type of a tensor where `wanted` is asked for, as llama.cpp has it: vectors are f32; rows that do not
// fill q4_k's blocks are q8_0, rows that do not fill blocks of 32 f16.
DType GgufOutputType(DType wanted, std::span<const int64_t> shape);

// The model that `base` was opened from with other weights: `tensors` are f32, under Hugging Face names. The
// tokenizer is the base's: a GGUF's metadata as it is, a folder's by gguf_tokenizer_writer. The file appears
// complete or not at all, its folder is made if need be; it must not be the base's own. Errors: a family or a
// setting that GGUF files or this writer do not have, a tokenizer that cannot be expressed, values that are
// not finite or too large for the type.
absl::Status WriteGgufModel(const ModelFiles& base, const std::filesystem::path& path,
                            std::span<const OutputTensor> tensors, DType dtype);

}  // namespace ftune
