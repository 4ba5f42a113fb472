// What a run makes of the weights that it has trained, RUN/model or RUN/adapter, and how it ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cmd/command.h"
#include "cmd/recipe/recipe.h"
#include "cmd/report/progress.h"
#include "cmd/report/run_log.h"
#include "cmd/run_folder.h"
#include "cmd/train/train_data.h"
#include "engine/backend/backend.h"
#include "engine/format/loaded_model.h"
#include "engine/optim/optimizer.h"
#include "engine/shard/model_shards.h"
#include "engine/train/run_end.h"
#include "engine/train/trainer.h"
#include "parallel/comm/communicator.h"

namespace ftune {

// All ranks have one and call it alike; the first in `world` writes and speaks.
class RunResults {
 public:
  // All outlive it.
  struct Parts {
    const Recipe& recipe;
    const RunPaths& paths;
    Backend& backend;
    LoadedModel& model;
    ModelShards& shards;
    Optimizer& optimizer;
    TrainData& data;
    Communicator& world;
    Progress& progress;
  };
  explicit RunResults(const Parts& parts) : of_(parts) {}
  // Of the rank that leads, once there is one.
  void set_log(RunLog* log) { log_ = log; }

  // With early stopping the weights of the best evaluation are the result, so they are saved as they come.
  bool keeps_best() const { return of_.recipe.train.early_stopping_patience.has_value(); }
  std::filesystem::path folder() const;
  std::filesystem::path shown_folder() const { return of_.paths.Shown(folder()); }

  // Finds the result that an earlier attempt has left.
  absl::Status Find();
  // Whether the result is there that a run which ends in this state has.
  bool Has(const TrainerState& state) const { return step_ == StepOf(state); }
  // Removes a result of a later step.
  absl::Status RemoveAfter(int64_t step);

  // Writes the weights as they are now, after `step`.
  absl::Status Save(int64_t step);
  // The result of a run that has come to its end, unless it is there already.
  absl::Status SaveAtEnd(const TrainSummary& summary);

  // Of a run that goes on and has come to its end, result and all.
  CommandResult NothingLeft(const TrainerState& state, RunEnd end);
  // `signal` is the one that has stopped the run, or 0.
  absl::StatusOr<CommandResult> Finish(const TrainSummary& summary, int signal);

 private:
  bool leads() const { return of_.world.rank() == 0; }
  int64_t StepOf(const TrainerState& state) const;
  // Takes back the weights of a step, if its checkpoint is there and whole.
  absl::StatusOr<bool> LoadStep(int64_t step);
  CommandResult ResultOf(const TrainSummary& summary) const;
  void SayEnd(const TrainSummary& summary, int signal);
  // Whose weights are the result, where that is not simply the last step.
  void SayBest(const TrainSummary& summary);

  Parts of_;
  RunLog* log_ = nullptr;
  std::optional<int64_t> step_;  // whose weights are the result, once there is one
};

}  // namespace ftune
