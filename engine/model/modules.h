// Names of a model's modules and parameters, without building it.
#pragma once

#include <string>
#include <vector>

#include "engine/model/config.h"

namespace ftune {

struct ParameterShape {
  std::string name;
  std::vector<int64_t> shape;
};

// All base parameters under Hugging Face's names. A tied head is not listed.
std::vector<ParameterShape> ModelParameters(const ModelConfig& config);

// The decoder's linear modules ("model.layers.0.self_attn.q_proj"): what `all-linear` means; the head is not
// one.
std::vector<std::string> LinearModules(const ModelConfig& config);

}  // namespace ftune
