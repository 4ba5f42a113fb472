// A training run of several ranks on this host, which are processes that this one starts and watches.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cmd/command.h"
#include "cmd/recipe/load.h"
#include "cmd/report/progress.h"
#include "cmd/run_folder.h"
#include "cmd/run_options.h"
#include "cmd/train/rank_output.h"
#include "cmd/train/train_options.h"
#include "parallel/launch/supervisor.h"

namespace ftune {

class SupervisedRun {
 public:
  SupervisedRun(const TrainOptions& options, const Invocation& invocation, LoadedRecipe loaded);

  // The result of rank 0; where a rank fails the error is that of the first that did.
  absl::StatusOr<CommandResult> Run();

 private:
  const Recipe& recipe() const { return loaded_.recipe; }
  // What needs to be done once: finds, and downloads if need be, what the ranks then find; checks what can be
  // checked without them; tokenises, with all cores.
  absl::StatusOr<ModelPlan> FindModel();
  absl::Status PrepareData(const ModelPlan& model_plan);
  absl::StatusOr<CommandResult> RunRanks();
  std::vector<std::string> CommandOfRank() const;
  std::vector<RankCommand> Commands(int port, const std::string& prefix) const;
  std::filesystem::path LogOf(int rank) const;
  absl::StatusOr<CommandResult> ResultOf(const std::vector<RankEnd>& ends, const Supervisor& supervisor,
                                         RankOutput& output);
  absl::Status ErrorOf(const RankEnd& end, RankOutput& output);

  // Takes the run's folder, begun or gone on with.
  absl::StatusOr<RunFolder> TakeFolder();

  TrainOptions options_;  // `resume` is known once the folder is taken
  bool json_;
  Verbosity verbosity_;
  LoadedRecipe loaded_;
  int ranks_;
  RunPaths paths_;
  int attempt_ = 1;
  Progress progress_;
};

}  // namespace ftune
