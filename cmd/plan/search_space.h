// What a search for a plan may change of a recipe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cmd/plan/target.h"
#include "cmd/recipe/load.h"
#include "engine/model/config.h"

namespace ftune {

// All that a search sets. The global batch stays what it is: accumulation follows.
struct SearchChoice {
  int hosts = 1;
  int64_t tensor = 1;
  int64_t pipeline = 1;
  std::string schedule = "1f1b";
  int64_t virtual_stages = 1;
  int64_t zero = 0;
  int64_t micro_batch = 1;
  ActivationCheckpointing checkpointing;
  Offload offload = Offload::kNone;

  // "tensor 8, pipeline 4 (interleaved, 2 stages a rank), data 8, zero 1, microbatch 2, activation
  // checkpointing selective"
  std::string Describe(int64_t ranks) const;
};

// Choices that share a mesh and a schedule, and how what they leave open may be set: each list from what is
// fastest to what takes least memory.
struct SearchFamily {
  SearchChoice base;
  std::vector<int64_t> zero_stages;
  std::vector<int64_t> micro_batches;  // ascending
};
std::vector<SearchFamily> SearchFamilies(const Recipe& resolved, const ModelConfig& config,
                                         const Target& target, int max_hosts);

// From the fastest on.
std::vector<ActivationCheckpointing> CheckpointingPolicies();

// `given`, not resolved, with the choice and this global batch.
LoadedRecipe WithChoice(LoadedRecipe given, const SearchChoice& choice, int64_t ranks, int64_t global_batch);

}  // namespace ftune
