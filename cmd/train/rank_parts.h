// What a rank trains with, besides its part of the model: the same for one that trains and for one that is
// only planned.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "cmd/recipe/recipe.h"
#include "cmd/train/pipeline_plan.h"
#include "engine/format/loaded_model.h"
#include "engine/optim/optimizer.h"
#include "engine/pipeline/pipeline.h"
#include "parallel/mesh.h"

namespace ftune {

// The options by which a rank loads its part of a model for several. `mesh` outlives the model; `stages` as
// in MakeRankParts.
void PlaceOnMesh(const Recipe& recipe, Mesh& mesh, const std::optional<PipelinePlan>& stages,
                 LoadModelOptions& options);

struct RankParts {
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Pipeline> pipeline;  // null: one stage, as is with `stages`
};

// Makes these, and memory for the model's gradients, in the order in which a run makes them. What is kept on
// disk is kept in `folder`. Called by all ranks of the mesh.
absl::StatusOr<RankParts> MakeRankParts(const Recipe& recipe, Backend& backend, Mesh& mesh,
                                        const std::optional<PipelinePlan>& stages,
                                        const std::filesystem::path& folder, LoadedModel& model);

}  // namespace ftune
