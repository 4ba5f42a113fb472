#include "cmd/train/rank_parts.h"

#include "base/error.h"
#include "cmd/run_options.h"
#include "engine/adapter/loraplus.h"
#include "engine/pipeline/stage_plan.h"

namespace ftune {
namespace {

void SetRates(const Recipe& recipe, Model& model) {
  if (!recipe.adapter || !recipe.adapter->loraplus_lr_ratio) return;
  const AdapterSection& adapter = *recipe.adapter;
  const double peak = *recipe.optimizer.learning_rate;
  SetLoraPlusRates(model.parameters(),
                   {.ratio = *adapter.loraplus_lr_ratio,
                    .embedding_factor = peak > 0 ? *adapter.loraplus_lr_embedding / peak : 0.0});
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(const Recipe& recipe, Backend& backend, Model& model,
                                                         const std::filesystem::path& folder) {
  const OptimizerOptions options = ToOptimizerOptions(recipe);
  if (recipe.memory.offload == Offload::kNone) {
    return std::make_unique<Optimizer>(backend, Stream(), model, options);
  }
  return Optimizer::CreateOffloaded(backend, Stream(), model, options, {.disk = {.folder = folder}});
}

}  // namespace

void PlaceOnMesh(const Recipe& recipe, Mesh& mesh, const std::optional<PipelinePlan>& stages,
                 LoadModelOptions& options) {
  if (mesh.shape().ranks() == 1) return;
  options.tensor = TensorAxis(mesh.axis(MeshAxis::kTensor), recipe.parallel.sequence_parallel);
  options.ranks = {
      .mesh = &mesh, .sharding = ToShardOptions(recipe.parallel), .optimizer = ToOptimizerOptions(recipe)};
  if (stages) {
    options.ranks->part = PartOf(stages->shape, mesh.Coordinate(MeshAxis::kPipeline), stages->blocks);
  }
}

absl::StatusOr<RankParts> MakeRankParts(const Recipe& recipe, Backend& backend, Mesh& mesh,
                                        const std::optional<PipelinePlan>& stages,
                                        const std::filesystem::path& folder, LoadedModel& model) {
  SetRates(recipe, *model.model);
  RankParts parts;
  FTUNE_ASSIGN_OR_RETURN(parts.optimizer, MakeOptimizer(recipe, backend, *model.model, folder));
  if (!model.shards) {
    model.model->AllocateGradients(backend, Stream());
    return parts;
  }
  FTUNE_RETURN_IF_ERROR(model.shards->AllocateGradients());
  if (!stages) return parts;
  FTUNE_ASSIGN_OR_RETURN(parts.pipeline,
                         Pipeline::Create(mesh, *model.model, stages->source,
                                          {.zero = static_cast<int>(recipe.parallel.zero),
                                           .keep_for_step = !recipe.parallel.reshard_after_forward}));
  return parts;
}

}  // namespace ftune
