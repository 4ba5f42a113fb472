// A model's settings as GGUF metadata; part of gguf_output.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/gguf_writer.h"
#include "engine/format/families.h"
#include "engine/format/hf_model.h"

namespace ftune {

// The model's family. An error that names the family, or its setting, if this writer cannot
// express it. `file` is named in errors.
absl::StatusOr<const Family*> CheckGgufFamily(const ModelConfig& config, const std::string& file);

// What llama.cpp knows of Gemma and GGUF does not store (its llama-model.cpp): scores are divided by the root
// of the head's size, in the largest models by that of their hidden size a head.
float GgufAttentionScale(const ModelConfig& config, const Family& family);

// general.*, ARCHITECTURE.* and tokenizer.*. Of a GGUF base, general.* (but for what describes the file
// itself) and tokenizer.* stay as they are. `dtype` is what the matrices are written in.
absl::Status AddGgufMetadata(const ModelFiles& base, const Family& family, DType dtype,
                             GgufMetadata& metadata);

}  // namespace ftune
