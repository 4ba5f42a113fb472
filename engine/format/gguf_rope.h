// Rotary position settings of a GGUF model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/gguf.h"
#include "engine/model/config.h"

namespace ftune {

// llama.cpp's converter does not keep Llama 3's scaling settings: it stores the factor that each frequency is
// divided by in a tensor, rope_freqs.weight. The settings are found again by comparing it with what they
// would give; factors that no setting gives are an error.
absl::StatusOr<RopeConfig> ReadGgufRope(const GgufFile& file, const std::string& architecture,
                                        int64_t head_dim);

// Llama 3's settings beside the tensor, behind "ARCHITECTURE.rope.": written by ftune where they are not 1
// and 4, which every released model has.
inline constexpr char kGgufLowFrequency[] = "scaling.low_freq_factor";
inline constexpr char kGgufHighFrequency[] = "scaling.high_freq_factor";

// What Llama 3's scaling divides each of the head_dim / 2 frequencies by (transformers' modeling_rope_utils,
// _compute_llama3_parameters).
std::vector<float> Llama3Divisors(const RopeConfig& rope, int64_t head_dim);

}  // namespace ftune
