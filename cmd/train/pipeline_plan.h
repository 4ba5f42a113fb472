// A recipe's pipeline: which blocks are in which stage, which stage is on which ranks, and in what order they
// work.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cmd/recipe/recipe.h"
#include "engine/format/loaded_model.h"
#include "engine/model/config.h"
#include "engine/pipeline/schedule_source.h"
#include "parallel/mesh.h"

namespace ftune {

struct PipelinePlan {
  ScheduleSource source;       // with the modelled costs of its stages
  ScheduleShape shape;         // of a step of `microbatches`
  std::vector<size_t> blocks;  // of each stage
  int microbatches = 1;        // of a step
  int first_backward = 0;      // stage: in those below it nothing is trained
};

// Of a resolved recipe, for a model of `config` whose parameters train as `training` says. An error, about
// the recipe's parallel.* or the schedule's file, where that cannot be.
absl::StatusOr<PipelinePlan> PlanPipeline(const Recipe& recipe, const ModelConfig& config,
                                          const LoadModelOptions& training);

// A line for the whole and one a stage: "stage 0: embedding, layers 0-13 on rank 0". With a warning where the
// microbatches are too few to keep all ranks at work.
std::vector<std::string> DescribePipeline(const PipelinePlan& plan, const Recipe& recipe,
                                          const MeshShape& mesh);

}  // namespace ftune
