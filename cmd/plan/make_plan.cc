#include "cmd/plan/make_plan.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "cmd/plan/host_memory.h"
#include "cmd/train/pipeline_plan.h"
#include "engine/format/model_config.h"
#include "engine/model/tensor_split.h"

namespace ftune {

absl::StatusOr<PlanResult> MakePlan(LoadedRecipe& loaded, const ModelPlan& model,
                                    const std::optional<Target>& target) {
  Recipe& recipe = loaded.recipe;
  FTUNE_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(model.model_path));
  FTUNE_RETURN_IF_ERROR(CheckTensorSplit(config, static_cast<int>(*recipe.parallel.tensor)));
  const int64_t longest = model.options.context ? model.options.context->max_position : config.LongestText();
  recipe.data.sequence_len = std::min(recipe.data.sequence_len, longest);
  std::optional<PipelinePlan> stages;
  if (*recipe.parallel.pipeline > 1) {
    FTUNE_ASSIGN_OR_RETURN(stages, PlanPipeline(recipe, config, model.options));
  }
  PlanResult plan = {
      .mesh_in_words = ToMeshShape(recipe.parallel).Describe(),
      .microbatches = *recipe.train.gradient_accumulation_steps,
      .packs = *recipe.train.micro_batch_size,
      .pack_tokens = recipe.data.sequence_len,
      .step_tokens = *recipe.train.global_batch_size * recipe.data.sequence_len,
      .capacity = target ? target->MemoryOfRank() : HostMemory() / *recipe.launch.ranks_per_host,
      .target = target};
  DryOptions dry = {.places = {.per_host = static_cast<int>(*recipe.launch.ranks_per_host)}};
  if (target) dry.device = &target->device;
  FTUNE_ASSIGN_OR_RETURN(plan.mesh, FindRoles(recipe, model, stages, dry));
  FTUNE_ASSIGN_OR_RETURN(plan.time, TimeStep(recipe, plan.mesh, stages));
  if (target) {
    const auto peak = target->device.peak.find(ToDType(*recipe.precision.weights));
    if (peak != target->device.peak.end()) plan.peak_flops = peak->second * target->hosts * target->per_host;
  }
  return plan;
}

}  // namespace ftune
