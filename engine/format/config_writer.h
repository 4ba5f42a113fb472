// config.json and generation_config.json of a model that is written.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "engine/model/config.h"

namespace ftune {

// The type's name in config.json.
std::string TorchName(DType dtype);

// config.json of a model that has none, in transformers 4's dialect, which 5 reads too. The tensors' type is
// `dtype`.
std::string MakeConfigJson(const ModelConfig& config, DType dtype);

// `config_json`, which `config` was read from, with its dtype field (torch_dtype, dtype or both, as it has
// them) set and, if config.rope or max_position are others than the text's, with those, in the text's
// dialect. All else stays, in its order.
absl::StatusOr<std::string> UpdateConfigJson(const std::string& config_json, const ModelConfig& config,
                                             DType dtype, const std::string& file);

std::string MakeGenerationConfigJson(const ModelConfig& config);

}  // namespace ftune
