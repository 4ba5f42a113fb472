// LoRA (Hu et al., "LoRA: low-rank adaptation of large language models", 2021): y += (alpha / r) B A
// dropout(x).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/config.h"
#include "engine/model/linear.h"

namespace ftune {

struct LoraOptions {
  int64_t rank = 16;
  double alpha = 32.0;
  double dropout = 0.0;
  // Module suffixes ("q_proj"); or one regular expression over the full module name; or "all-linear" (all of
  // the decoder's products, not the head), as in PEFT.
  std::variant<std::vector<std::string>, std::string> target_modules = std::string("all-linear");
};

// Decides which modules are adapted, and says so: an error if a target matches none.
class LoraTargets {
 public:
  static absl::StatusOr<LoraTargets> Resolve(const LoraOptions& options, const ModelConfig& config);
  bool Contains(const std::string& module) const;
  // Last components of the matched modules ("q_proj"), sorted: what adapter_config.json lists.
  const std::vector<std::string>& suffixes() const { return suffixes_; }
  const std::vector<std::string>& modules() const { return modules_; }

 private:
  std::vector<std::string> modules_;   // full names, sorted
  std::vector<std::string> suffixes_;  // sorted, unique
};

// The factory for ParameterPolicy::adapter. Parameters are named <module>.lora_A.weight [r, in] and
// <module>.lora_B.weight [out, r], trainable, f32.
AdapterFactory MakeLoraFactory(const LoraOptions& options, LoraTargets targets);

inline constexpr char kLoraA[] = ".lora_A.weight";
inline constexpr char kLoraB[] = ".lora_B.weight";

// PEFT's initial values: A uniform in ±1/sqrt(in) (kaiming_uniform with a = sqrt 5), B zero. Each element is
// a function of (seed, parameter name, index).
void InitLoraValues(Backend& backend, Stream stream, std::vector<Parameter*> parameters, uint64_t seed);

}  // namespace ftune
