// Names of a model's modules and parameters, without building it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/model/adapter.h"
#include "engine/model/config.h"

namespace ftune {

// "q_proj" of "model.layers.0.self_attn.q_proj".
inline std::string_view LastComponent(std::string_view module) {
  return module.substr(module.rfind('.') + 1);
}

struct ParameterShape {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<Dimension> dims;  // as a rank of the tensor axis holds them
};

// All base parameters under Hugging Face's names. A tied head is not listed.
std::vector<ParameterShape> ModelParameters(const ModelConfig& config);
// The same, and those of an adapter.
std::vector<ParameterShape> AdaptedModelParameters(const ModelConfig& config, AdapterFactories adapter,
                                                   const AxisPosition& position = {});

// A module that an adapter can sit on.
struct AdaptableModule {
  enum class Kind { kLinear, kHead, kEmbedding };
  std::string name;  // "model.layers.0.self_attn.q_proj"
  Kind kind = Kind::kLinear;
  bool transposed = false;  // the weight is stored [in, out]
};

// In the order of the model. `all-linear` means those of kind kLinear.
std::vector<AdaptableModule> AdaptableModules(const ModelConfig& config);
// The names of those of kind kLinear.
std::vector<std::string> LinearModules(const ModelConfig& config);

}  // namespace ftune
