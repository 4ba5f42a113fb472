// When a run's state is saved: every so many steps, by the clock, when it is asked for, and at the end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "cmd/recipe/recipe.h"
#include "cmd/report/progress.h"
#include "cmd/report/run_log.h"
#include "cmd/run_folder.h"
#include "cmd/run_options.h"
#include "cmd/stop_signal.h"
#include "engine/checkpoint/checkpoint_saver.h"
#include "engine/shard/model_shards.h"
#include "engine/train/trainer.h"

namespace ftune {

class RunCheckpoints final : public TrainCheckpoints {
 public:
  struct Options {
    std::optional<int64_t> every;  // steps; none: by the clock of the rank that leads
    bool best = false;             // also at evaluations that are the best so far
    bool skips = false;            // what is due while a save is under way
    RunPaths paths{""};            // save_request asks for a save, and is then removed
  };
  // What to warn of: checkpoint.keep_every would keep none, as none is saved at such a step. Else empty.
  static std::string WarnOfKeepEvery(const CheckpointSection& checkpoint, const RunLength& steps);
  static Options OptionsOf(const CheckpointSection& checkpoint, const RunLength& steps,
                           const RunPaths& paths);

  // All outlive it. `log` is that of the rank that leads, null on others.
  RunCheckpoints(CheckpointSaver& saver, ModelShards& shards, Options options, StopSignal& signals,
                 RunLog* log, Progress& progress);

  bool Wanted(int64_t step) override;
  bool WantsBest() const override { return options_.best; }
  absl::Status Save(const TrainerState& state) override;
  // The state that the run leaves, unless it has been saved; waits. An error where it could not be.
  absl::Status SaveLast(const TrainerState& state);
  // The step of the last checkpoint that is whole.
  std::optional<int64_t> saved() const { return saved_; }

 private:
  bool leads() const { return log_ != nullptr; }
  bool AskedFor();
  // Save, of which nothing is told yet, also where it has ended already.
  absl::Status Begin(const TrainerState& state);
  // Tells of saves that have ended; the first error.
  absl::Status Report();

  CheckpointSaver& saver_;
  ModelShards& shards_;
  Options options_;
  StopSignal& signals_;
  RunLog* log_;
  Progress& progress_;
  double last_ = 0.0;       // when the last save began, on Timeline's clock
  bool asked_for_ = false;  // on this rank, the save that comes next
  bool failing_ = false;    // the last save that has ended could not be written
  bool ended_ = false;      // no step comes any more
  std::optional<int64_t> saved_;
};

}  // namespace ftune
