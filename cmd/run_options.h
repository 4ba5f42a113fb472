// A resolved recipe, translated into the options of the layers below.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/hub/hub_reporter.h"
#include "cmd/hub/model_files.h"
#include "cmd/recipe/load.h"
#include "cmd/recipe/resolve.h"
#include "data/audit/audit_report.h"
#include "data/loader/data_plan.h"
#include "data/loader/streamed_batches.h"
#include "data/prepare/block_builder.h"
#include "data/source/dataset.h"
#include "engine/format/loaded_model.h"
#include "engine/optim/optimizer.h"
#include "engine/shard/shard_options.h"
#include "engine/train/trainer.h"
#include "parallel/launch/rank_environment.h"
#include "parallel/mesh.h"

namespace ftune {

// Read, checked, resolved for this machine; what this version cannot do is refused. `launched`: by whom this
// process was started as a rank, if it was.
absl::StatusOr<LoadedRecipe> OpenRecipe(const std::string& path, const std::vector<std::string>& overrides,
                                        const std::optional<RankEnvironment>& launched = std::nullopt);

// The same of a recipe that was read.
absl::Status ResolveHere(LoadedRecipe& loaded, const std::optional<RankEnvironment>& launched);
absl::Status ResolveHere(LoadedRecipe& loaded, const std::optional<RankEnvironment>& launched,
                         const Environment& environment);
// An error where the recipe's hosts cannot be read.
absl::StatusOr<Environment> EnvironmentHere(const LoadedRecipe& loaded,
                                            const std::optional<RankEnvironment>& launched);

// Of sources whose hub ids have been resolved.
std::vector<DatasetEntry> ToEntries(const std::vector<DataSource>& sources);
SampleOptions ToSampleOptions(const DataSection& data);
AuditLimits ToAuditLimits(const AuditSection& audit);
MeshShape ToMeshShape(const ParallelSection& parallel);
ShardOptions ToShardOptions(const ParallelSection& parallel);
// For a rank of the mesh's data axis.
DataPlanOptions ToPlanOptions(const Recipe& recipe, int data_rank);
StreamOptions ToStreamOptions(const Recipe& recipe, int data_rank);
BadRows ToBadRows(OnBadRow on_bad_row);

// model.init_from may be an adapter's folder (for a recipe with an adapter), a model's, a checkpoint's, or a
// run's; `model_path` is what to load. What the recipe leaves to the adapter that it goes on from is filled
// in, and so is what a run stands for, which is something else tomorrow.
struct ModelPlan {
  std::string model_path;
  // The checkpoint that model.init_from stands for, if it does: what options.trained has.
  std::optional<std::filesystem::path> checkpoint;
  // The checkpoint that has the weights of an adapter's base, if it is not `model_path` as it is.
  std::optional<std::filesystem::path> base_checkpoint;
  // Where its tokenizer is: with the model, or with the adapter that it goes on from.
  std::filesystem::path tokenizer;
  LoadModelOptions options;
};
// Of a run that goes on from a checkpoint which has all that the run took of model.init_from: that is not
// opened.
struct InitInCheckpoint {
  std::filesystem::path file;  // the checkpoint's manifest, for errors
  std::string adapter;         // Manifest::adapter
};

// Models of the hub are looked up, and the parts of model.path that are wanted are downloaded if need be:
// ModelSection::here is filled in.
absl::StatusOr<ModelPlan> ToModelPlan(LoadedRecipe& loaded, const HubReporter& reporter,
                                      ModelParts parts = ModelParts::kAll,
                                      const std::optional<InitInCheckpoint>& init = std::nullopt);

// An adapter's base is named as the recipe names it, so that the adapter can be used elsewhere; or it is the
// checkpoint with the base's weights: PEFT finds no model there, rather than another one.
void NameBase(const Recipe& recipe, const ModelPlan& plan, ModelFiles& files);

// What a recipe's model.rope_scaling, which it has, makes of the model's positions.
absl::StatusOr<ModelContext> ScaledContext(const LoadedRecipe& loaded, const ModelConfig& config);

DType ToDType(WeightType type);
OptimizerOptions ToOptimizerOptions(const Recipe& recipe);
// How long a run is, in steps.
struct RunLength {
  int64_t total = 0;
  std::optional<int64_t> epoch;  // of the first; not known of streamed data
};
TrainerOptions ToTrainerOptions(const Recipe& recipe, const RunLength& steps);

}  // namespace ftune
