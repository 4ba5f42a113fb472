// The kinds of ranks that a mesh has: stages of the pipeline, and of each those of the tensor axis whose
// slices are of the same sizes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cmd/plan/dry_rank.h"
#include "cmd/plan/plan_depth.h"
#include "cmd/recipe/recipe.h"
#include "cmd/run_options.h"
#include "cmd/train/pipeline_plan.h"

namespace ftune {

struct RankRole {
  std::string name;  // "pipeline 0, tensor 1"; "each rank" where all are alike
  int rank = 0;      // that of the role's ranks which needs most
  int ranks = 0;     // of the role
  DryRank dry;       // of `rank`
};

struct RolesOfMesh {
  std::vector<RankRole> roles;                        // from the first stage on
  int64_t parameters = 0, trainable = 0;              // of the whole model
  double useful_flops = 0.0, recomputed_flops = 0.0;  // of a step, of all ranks
  SavedBytes saved;                                   // by all ranks
};

// Runs the ranks dry that can need most: of the data axis, whose shares differ by some elements (ZeRO), all,
// or of more than eight the first and the last.
absl::StatusOr<RolesOfMesh> FindRoles(const Recipe& recipe, const ModelPlan& model,
                                      const std::optional<PipelinePlan>& stages, const DryOptions& options,
                                      PlanDepth depth);

}  // namespace ftune
