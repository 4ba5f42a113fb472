// A run that goes on: its recipe, and the checkpoint that it goes on from.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cmd/recipe/load.h"
#include "cmd/report/progress.h"
#include "cmd/run_folder.h"
#include "cmd/train/train_options.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "parallel/comm/communicator.h"
#include "parallel/launch/rank_environment.h"

namespace ftune {

struct OpenedRecipe {
  LoadedRecipe loaded;   // resolved
  bool goes_on = false;  // it is that of a run that is there
};

// What to train, by the command line: a recipe, or that of a run with overrides. Of a run that is there
// nothing may change that cannot.
absl::StatusOr<OpenedRecipe> OpenForTraining(const TrainOptions& options,
                                             const std::optional<RankEnvironment>& launched);

struct TakenRun {
  RunFolder folder;
  ResumePoint point;
};

// Takes the folder of a run that goes on, and chooses its newest whole checkpoint, or that of `options.step`.
// Damaged ones that are passed over are said. An error where a checkpoint is of another run.
absl::StatusOr<TakenRun> TakeRun(const LoadedRecipe& loaded, const TrainOptions& options, Progress& progress);

// The second half of that, of a folder that is taken.
absl::StatusOr<ResumePoint> ChoosePoint(RunFolder& folder, const LoadedRecipe& loaded,
                                        std::optional<int64_t> step, Progress& progress);

// An error where the checkpoint is of another run, which somebody has copied here. `data`: the run's
// FingerprintOfData; may be empty.
absl::Status CheckOfRun(const CheckpointEntry& entry, const Manifest& manifest, const LoadedRecipe& loaded,
                        const std::string& data);

// Gives all ranks what rank 0 has in `point`. Called by all of them.
absl::Status ShareResumePoint(Communicator& world, const RunPaths& paths, std::optional<ResumePoint>& point);

// Where the checkpoint of a step is.
ResumePoint ResumePointOf(const RunPaths& paths, int64_t step);

// Sets `point.init` where the checkpoint has all that the run took of model.init_from. An error where it does
// not, and that is gone.
absl::Status FindInitInCheckpoint(const LoadedRecipe& loaded, const RunPaths& paths, ResumePoint& point);

}  // namespace ftune
