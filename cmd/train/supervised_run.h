// A training run of several ranks, which are processes that this one has started and watches: on this host
// or, by agents, on others. Where they fail for a reason that may pass, they are started again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_state.h"
#include "cmd/command.h"
#include "cmd/recipe/load.h"
#include "cmd/report/progress.h"
#include "cmd/run_folder.h"
#include "cmd/run_options.h"
#include "cmd/train/rank_output.h"
#include "cmd/train/rank_place.h"
#include "cmd/train/rank_watch.h"
#include "cmd/train/run_hosts.h"
#include "cmd/train/run_watch.h"
#include "cmd/train/train_options.h"
#include "parallel/launch/pulse.h"
#include "parallel/launch/restart_policy.h"

namespace ftune {

class SupervisedRun {
 public:
  SupervisedRun(const TrainOptions& options, const Invocation& invocation, LoadedRecipe loaded,
                std::vector<HostSlots> hosts);

  // The result of rank 0; where a rank fails the error is that of the first that did.
  absl::StatusOr<CommandResult> Run();

 private:
  // What became of an attempt: a result, or an error; and whether it is worth another one.
  struct Outcome {
    absl::StatusOr<CommandResult> result;
    bool may_pass = false;
    std::string cause;                           // in one line, of an error
    std::optional<int64_t> step = std::nullopt;  // the last that was trained, as far as the ranks have shown
  };

  const Recipe& recipe() const { return loaded_.recipe; }
  absl::StatusOr<CommandResult> RunInFolder();
  // What needs to be done once: finds, and downloads if need be, what the ranks then find; checks what can be
  // checked without them; tokenises, with all cores.
  absl::StatusOr<ModelPlan> FindModel();
  absl::Status PrepareData(const ModelPlan& model_plan);
  absl::Status FindPlace();
  // Resolves the recipe for the hosts that there are.
  absl::Status FitToHosts();
  // Takes the run's folder, begun or gone on with.
  absl::Status TakeFolder();
  absl::StatusOr<CommandResult> RunAttempts();
  absl::StatusOr<Outcome> RunAttempt();
  // Tells those who watch of the ranks that are to be started.
  void ShowRanks();
  // Waits; false where a signal has come that ends the run.
  bool WaitToRestart(absl::Duration wait);
  // Whether one has come while no ranks run: signal_.
  bool TakeSignal();
  // The result of a run that such a signal has ended, instead of what was about to come.
  CommandResult StoppedBefore(const std::string& what);
  // Whether it has written its recipe: then it can go on.
  bool HasBegun() const;
  // Whether the ranks have saved, to go on with more hosts.
  bool Grows(const Outcome& outcome) const;
  // The run goes on from the newest checkpoint that is whole, or begins anew.
  absl::Status PrepareRestart(const std::string& cause, int64_t failed_step);
  // Until enough are there, or launch.start_timeout has passed.
  absl::Status FindHostsAgain();
  std::vector<std::string> ArgumentsOfRanks() const;
  // As overrides, what follows from the number of ranks.
  std::vector<std::string> PartsOfBatch() const;
  AttemptOrder Order() const;
  std::filesystem::path LogOf(int rank) const;
  RankWatch::Options WatchOptions();
  void OnStraggler(const Straggler& straggler);
  Outcome OutcomeOf(const std::vector<RankEnd>& ends, RankOutput& output, RankWatch& watch);
  // `shown`: by the rank that has failed.
  Outcome FailedBy(const absl::Status& error, const Pulse& shown = {}) const;
  // Of a run that a signal has ended without a checkpoint.
  CommandResult Interrupted(int signal) const;
  absl::Status ErrorOf(const RankEnd& end, RankOutput& output, RankWatch& watch);

  TrainOptions options_;  // `resume` is known once the folder is taken
  bool json_;
  Verbosity verbosity_;
  LoadedRecipe loaded_;
  std::vector<HostSlots> hosts_;
  int ranks_;
  RunPaths paths_;
  int attempt_ = 1;
  Progress progress_;
  std::optional<RunFolder> folder_;
  RunWatch watch_;
  RestartPolicy policy_;
  std::unique_ptr<TakenSignals> signals_;
  std::unique_ptr<RankPlace> place_;
  RunHosts* run_hosts_ = nullptr;  // place_, where there are hosts
  std::string recipe_text_;        // as the user has it, for those
  int signal_ = 0;
  // The recipe that was there before the run began.
  std::optional<FileState> recipe_before_;
};

}  // namespace ftune
