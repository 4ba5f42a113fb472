#include "cmd/train/pipeline_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "engine/adapter/lora.h"
#include "engine/adapter/lora_names.h"
#include "engine/backend/cpu/cpu_workspace.h"
#include "engine/backend/meta/meta_backend.h"
#include "engine/model/model.h"
#include "engine/pipeline/stage_plan.h"

namespace ftune {
namespace {

// The model as it will be, without memory for it: what of it trains.
absl::StatusOr<std::unique_ptr<Model>> OutlineOf(Backend& backend, const ModelConfig& config,
                                                 const LoadModelOptions& training) {
  ParameterPolicy policy = {.trainable = training.trainable,
                            .dtype = [](const std::string&, bool) { return DType::kF32; }};
  if (training.lora) {
    FTUNE_ASSIGN_OR_RETURN(LoraTargets targets, LoraTargets::Resolve(*training.lora, config));
    policy.adapter = MakeLoraFactories(*training.lora, targets);
    policy.trainable = [targets = std::move(targets)](const std::string& name) {
      return targets.Saves(name);
    };
  }
  return std::make_unique<Model>(backend, Stream(), config, policy, std::max<int64_t>(training.max_length, 1),
                                 TensorAxis(), ValueMemory::kPlaced);
}

// Multiply-adds a token for the gradients of a block's parameters.
double WeightCost(const Model& model, size_t block) {
  const auto trained = [](const Block& of) {
    double sum = 0.0;
    for (const Parameter& p : of.store().parameters()) {
      if (p.trainable && p.shape.size() == 2) sum += static_cast<double>(p.global_size());
    }
    return sum;
  };
  // A token of the embedding has one row.
  const bool embedding = block == 0;
  if (embedding) return trained(*model.blocks()[0]) > 0 ? static_cast<double>(model.config().hidden_size) : 0;
  double sum = trained(*model.blocks()[block]);
  if (model.lender(block)) sum += trained(*model.blocks()[*model.lender(block)]);
  return sum;
}

// Multiply-adds a token of a block's adapters, in the forward; as many again go into the gradient of what
// comes in.
double AdapterCost(const Model& model, size_t block) {
  double sum = 0.0;
  for (const Parameter& p : model.blocks()[block]->store().parameters()) {
    // A token looks one column of an embedding's A up.
    if (p.name.ends_with(kLoraA) || p.name.ends_with(kLoraB) || p.name.ends_with(kLoraEmbeddingB)) {
      sum += static_cast<double>(p.global_size());
    }
  }
  return sum;
}

// Of a block's forward, the share that backward repeats.
double RepeatedShare(const ActivationCheckpointing& mode) {
  switch (mode.kind) {
    case ActivationCheckpointing::Kind::kFull:
      return 1.0;
    case ActivationCheckpointing::Kind::kEveryNth:
      return 1.0 / static_cast<double>(mode.every_nth);
    case ActivationCheckpointing::Kind::kNone:
    case ActivationCheckpointing::Kind::kSelective:
      return 0.0;
  }
  return 0.0;
}

// Costs of the stages, in shares of the whole model's forward and so that a balanced stage of a trained model
// has about 1 of each; and the first stage that trains.
absl::Status AddCosts(const Recipe& recipe, const ModelConfig& config, const LoadModelOptions& training,
                      PipelinePlan& plan) {
  MetaBackend backend(std::make_unique<CpuWorkspaceSizes>(1));
  FTUNE_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, OutlineOf(backend, config, training));
  std::vector<double> forward = BlockCosts(config, recipe.data.sequence_len);
  for (size_t i = 0; i < forward.size(); ++i) forward[i] += AdapterCost(*model, i);
  const double mean =
      std::accumulate(forward.begin(), forward.end(), 0.0) / static_cast<double>(plan.blocks.size());
  const double repeated = RepeatedShare(recipe.memory.activation_checkpointing);
  const auto& blocks = model->blocks();
  const auto first = std::find_if(blocks.begin(), blocks.end(),
                                  [](const auto& block) { return block->store().has_trainable(); });
  const size_t first_trained = first - blocks.begin();
  plan.first_backward = plan.shape.stages();
  plan.source.costs.stages.clear();
  size_t block = 0;
  for (int stage = 0; stage < plan.shape.stages(); ++stage) {
    StageCosts costs = {0, 0, 0};
    for (size_t end = block + plan.blocks[stage]; block < end; ++block) {
      const double share = forward[block] / mean;
      costs.forward += share;
      if (block < first_trained) continue;
      plan.first_backward = std::min(plan.first_backward, stage);
      costs.backward_input += share * (1.0 + repeated);
      costs.backward_weight += WeightCost(*model, block) / mean;
    }
    plan.source.costs.stages.push_back(costs);
  }
  return absl::OkStatus();
}

absl::StatusOr<ScheduleSource> SourceOf(const Recipe& recipe, int microbatches) {
  const ParallelSection& parallel = recipe.parallel;
  if (const std::optional<ScheduleKind> kind = FindScheduleKind(parallel.schedule)) {
    ScheduleSource source;
    source.kind = *kind;
    source.chunks = static_cast<int>(parallel.virtual_stages);
    return source;
  }
  FTUNE_ASSIGN_OR_RETURN(ScheduleSource source,
                         ScheduleSource::Read(parallel.schedule, static_cast<int>(*parallel.pipeline)));
  const Schedule& schedule = *source.given;
  if (schedule.shape.microbatches != microbatches) {
    return DataError({.file = parallel.schedule,
                      .message = "the schedule is for another number of microbatches",
                      .found = StrCat(schedule.shape.microbatches),
                      .expected = StrCat(microbatches, ", the recipe's train.gradient_accumulation_steps")});
  }
  // 1, the default, leaves it to the file.
  if (parallel.virtual_stages != 1 && parallel.virtual_stages != schedule.shape.chunks) {
    return DataError({.file = parallel.schedule,
                      .message = "the schedule has another number of stages a rank",
                      .found = StrCat(schedule.shape.chunks),
                      .expected = StrCat(parallel.virtual_stages, ", the recipe's parallel.virtual_stages")});
  }
  return source;
}

std::string Range(std::string_view what, int64_t first, int64_t last) {
  return first == last ? StrCat(what, " ", first) : StrCat(what, "s ", first, "-", last);
}

std::string DescribeBlocks(size_t first, size_t count, size_t total) {
  std::vector<std::string> parts;
  const size_t last = first + count - 1;
  if (first == 0) parts.emplace_back("embedding");
  const size_t first_layer = std::max<size_t>(first, 1), last_layer = std::min(last, total - 2);
  if (first_layer <= last_layer) {
    parts.push_back(
        Range("layer", static_cast<int64_t>(first_layer) - 1, static_cast<int64_t>(last_layer) - 1));
  }
  if (last == total - 1) parts.emplace_back("head");
  return StrJoin(parts, ", ");
}

}  // namespace

absl::StatusOr<PipelinePlan> PlanPipeline(const Recipe& recipe, const ModelConfig& config,
                                          const LoadModelOptions& training) {
  PipelinePlan plan;
  plan.microbatches = static_cast<int>(*recipe.train.gradient_accumulation_steps);
  FTUNE_ASSIGN_OR_RETURN(plan.source, SourceOf(recipe, plan.microbatches));
  FTUNE_ASSIGN_OR_RETURN(plan.shape, plan.source.Shape(static_cast<int>(*recipe.parallel.pipeline)));
  plan.shape.microbatches = plan.microbatches;
  FTUNE_ASSIGN_OR_RETURN(
      plan.blocks, PlanStages(config, recipe.data.sequence_len, plan.shape.stages(), recipe.parallel.stages));
  FTUNE_RETURN_IF_ERROR(AddCosts(recipe, config, training, plan));
  return plan;
}

std::vector<std::string> DescribePipeline(const PipelinePlan& plan, const Recipe& recipe,
                                          const MeshShape& mesh) {
  const ScheduleShape& shape = plan.shape;
  std::vector<std::string> lines = {StrCat(
      "pipeline: ", recipe.parallel.schedule, ", ", shape.stages(), " stages on ", shape.ranks, " ranks, ",
      plan.microbatches, plan.microbatches == 1 ? " microbatch" : " microbatches", " a step")};
  const size_t total = std::accumulate(plan.blocks.begin(), plan.blocks.end(), size_t{0});
  const int together = mesh.ranks() / mesh.pipeline;  // the pipeline is the outermost axis
  size_t first = 0;
  for (int stage = 0; stage < shape.stages(); ++stage) {
    const int rank = shape.RankOf(stage) * together;
    lines.push_back(StrCat("stage ", stage, ": ", DescribeBlocks(first, plan.blocks[stage], total), " on ",
                           Range("rank", rank, rank + together - 1)));
    first += plan.blocks[stage];
  }
  if (plan.microbatches < shape.stages()) {
    lines.push_back(StrCat("warning: a step has fewer microbatches (", plan.microbatches, ") than there are ",
                           "stages (", shape.stages(),
                           "), so ranks wait for most of it; raise "
                           "train.gradient_accumulation_steps, or lower train.micro_batch_size"));
  }
  return lines;
}

}  // namespace ftune
