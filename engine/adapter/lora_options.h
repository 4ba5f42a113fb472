// What an adapter is asked to be: the fields of PEFT's LoraConfig that ftune has.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ftune {

// Module suffixes ("q_proj", "self_attn.q_proj"), or one regular expression over the full module name.
using ModuleFilter = std::variant<std::vector<std::string>, std::string>;
inline constexpr char kAllLinear[] = "all-linear";

// Pairs of (regular expression of the end of a module's name, value); of several that match a module, the
// first counts.
template <class T>
using PatternValues = std::vector<std::pair<std::string, T>>;

struct LoraOptions {
  int64_t rank = 16;
  double alpha = 32.0;
  double dropout = 0.0;
  // Or the text "all-linear": all of the decoder's products, not the head.
  ModuleFilter target_modules = std::string(kAllLinear);
  ModuleFilter exclude_modules;              // of the targets; none by default
  std::vector<int64_t> layers_to_transform;  // of targets that are listed; empty: all layers
  std::vector<std::string> layers_pattern;   // what the layers' list is called; empty: the first list
  PatternValues<int64_t> rank_pattern;       // instead of `rank`
  PatternValues<double> alpha_pattern;       // instead of `alpha`
  bool rslora = false;                       // Kalajdzievski 2023: alpha / sqrt(r) for alpha / r
  bool dora = false;                         // Liu et al. 2024
  // Modules trained in full and kept with the adapter: the end of a module's name, as PEFT has it.
  std::vector<std::string> modules_to_save;
  // A tied head stays tied to an embedding in modules_to_save. Without, each has a copy of its own.
  bool tie_saved = true;

  bool operator==(const LoraOptions&) const = default;
};

inline double LoraScale(double alpha, int64_t rank, bool rslora) {
  const double r = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(r) : r);
}

}  // namespace ftune
