// Rotary position settings of a GGUF model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/gguf.h"
#include "engine/format/families.h"
#include "engine/model/config.h"

namespace ftune {

inline constexpr char kGgufRopeFactors[] = "rope_freqs.weight";
// Tensors that hold rotary settings: of the model's file, not of its parameters.
bool IsRopeTensor(std::string_view name);

// Sets rope, local_rope and rotary_dim. llama.cpp's converter does not keep Llama 3's scaling settings: it
// stores the factor that each frequency is divided by in a tensor, rope_freqs.weight. The settings are found
// again by comparing it with what they would give; factors that no setting gives are an error. Phi-3's
// LongRoPE factors are tensors too.
absl::Status ReadGgufRopes(const GgufFile& file, const std::string& architecture, const Family& family,
                           ModelConfig& config);

// Llama 3's settings beside the tensor, behind "ARCHITECTURE.rope.": written by ftune where they are not 1
// and 4, which every released model has.
inline constexpr char kGgufLowFrequency[] = "scaling.low_freq_factor";
inline constexpr char kGgufHighFrequency[] = "scaling.high_freq_factor";

// What Llama 3's scaling divides each of the head_dim / 2 frequencies by (transformers' modeling_rope_utils,
// _compute_llama3_parameters).
std::vector<float> Llama3Divisors(const RopeConfig& rope, int64_t head_dim);

}  // namespace ftune
