#include "cmd/plan/make_plan.h"

#include <algorithm>

#include "base/error.h"
#include "cmd/plan/host_memory.h"
#include "cmd/train/pipeline_plan.h"
#include "engine/format/model_config.h"
#include "engine/model/tensor_split.h"

namespace ftune {
namespace {

// Without a pipeline: the first microbatch, the last, and one like all others.
constexpr int64_t kEachKind = 3;

// The recipe with a step that has no more microbatches than there is something to learn of.
Recipe Shortened(const Recipe& recipe) {
  Recipe shorter = recipe;
  const int64_t pipeline = *recipe.parallel.pipeline;
  // After as many as twice the stages a schedule has as much in flight as it will have.
  const int64_t most = pipeline > 1 ? 2 * pipeline : kEachKind;
  int64_t& microbatches = *shorter.train.gradient_accumulation_steps;
  microbatches = std::min(microbatches, most);
  shorter.train.global_batch_size = microbatches * *recipe.train.micro_batch_size * *recipe.parallel.data;
  return shorter;
}

absl::StatusOr<std::optional<PipelinePlan>> StagesOf(const Recipe& recipe, const ModelConfig& config,
                                                     const ModelPlan& model) {
  if (*recipe.parallel.pipeline == 1) return std::nullopt;
  return PlanPipeline(recipe, config, model.options);
}

DryOptions OptionsFor(const PlanOptions& options) {
  DryOptions dry = {.trace = options.traced, .content = options.content, .typical = options.typical};
  if (options.target) {
    dry.device = &options.target->device;
    dry.places.per_host = options.target->per_host;
  }
  return dry;
}

// What products of the weights' type could reach.
std::optional<double> PeakOf(const Recipe& recipe, const Target& target) {
  const auto peak = target.device.peak.find(ToDType(*recipe.precision.weights));
  if (peak == target.device.peak.end()) return std::nullopt;
  return peak->second * target.hosts * target.per_host;
}

}  // namespace

absl::StatusOr<PlanResult> MakePlan(LoadedRecipe& loaded, const ModelPlan& model,
                                    const PlanOptions& options) {
  Recipe& recipe = loaded.recipe;
  const std::optional<Target>& target = options.target;
  FTUNE_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(model.model_path));
  FTUNE_RETURN_IF_ERROR(CheckTensorSplit(config, static_cast<int>(*recipe.parallel.tensor)));
  const int64_t longest = model.options.context ? model.options.context->max_position : config.LongestText();
  recipe.data.sequence_len = std::min(recipe.data.sequence_len, longest);
  PlanResult plan = {
      .mesh_in_words = ToMeshShape(recipe.parallel).Describe(),
      .microbatches = *recipe.train.gradient_accumulation_steps,
      .packs = *recipe.train.micro_batch_size,
      .pack_tokens = recipe.data.sequence_len,
      .step_tokens = *recipe.train.global_batch_size * recipe.data.sequence_len,
      .used_tokens = *recipe.train.global_batch_size *
                     (options.typical ? options.typical->used : recipe.data.sequence_len),
      .fill = options.typical ? options.typical->fill() : 1.0,
      .capacity = target ? target->MemoryOfRank() : HostMemory() / *recipe.launch.ranks_per_host,
      .target = target};
  FTUNE_ASSIGN_OR_RETURN(const std::optional<PipelinePlan> stages, StagesOf(recipe, config, model));
  const Recipe done = options.depth == PlanDepth::kShort ? Shortened(recipe) : recipe;
  DryStep step = {.microbatches = static_cast<int>(*done.train.gradient_accumulation_steps)};
  FTUNE_ASSIGN_OR_RETURN(step.stages, StagesOf(done, config, model));
  FTUNE_ASSIGN_OR_RETURN(plan.mesh, FindRoles(done, model, step.stages, OptionsFor(options), options.depth));
  const double more = static_cast<double>(plan.microbatches) / step.microbatches;
  plan.mesh.useful_flops *= more;
  plan.mesh.recomputed_flops *= more;
  if (target) {
    FTUNE_ASSIGN_OR_RETURN(plan.time, TimeStep(recipe, stages, plan.mesh, step));
    plan.peak_flops = PeakOf(recipe, *target);
  }
  return plan;
}

}  // namespace ftune
