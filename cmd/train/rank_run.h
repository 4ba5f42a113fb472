// A training run as one of its ranks makes it, which may be the only one.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/strings.h"
#include "base/timeline.h"
#include "cmd/command.h"
#include "cmd/recipe/load.h"
#include "cmd/report/progress.h"
#include "cmd/report/run_log.h"
#include "cmd/run_folder.h"
#include "cmd/stop_signal.h"
#include "cmd/train/pipeline_plan.h"
#include "cmd/train/rank_trace.h"
#include "cmd/train/run_results.h"
#include "cmd/train/run_watch.h"
#include "cmd/train/same_files.h"
#include "cmd/train/train_data.h"
#include "cmd/train/train_options.h"
#include "engine/checkpoint/checkpoint_saver.h"
#include "engine/format/loaded_model.h"
#include "engine/optim/optimizer.h"
#include "engine/pipeline/pipeline.h"
#include "parallel/launch/pulse_writer.h"
#include "parallel/launch/rank_environment.h"
#include "parallel/launch/slurm/scope.h"
#include "parallel/mesh.h"

namespace ftune {

// Who started this process as a rank.
struct RankStart {
  std::optional<RankEnvironment> environment;  // none: it is the only rank
  SlurmScope slurm;         // that of ranks which somebody else has started is not looked at
  bool supervised = false;  // by an ftune, which has taken the run's folder
  ProgressStyle style = ProgressStyle::kPlain;

  // "rank 1" where it is one of several, else empty.
  std::string Name() const {
    return environment && environment->world_size > 1 ? StrCat("rank ", environment->rank) : "";
  }
};

// The first rank of the mesh alone writes: the run's folder, the log, progress, results. The others do the
// same work in silence.
class RankRun {
 public:
  RankRun(const TrainOptions& options, const Invocation& invocation, const RankStart& start,
          LoadedRecipe loaded);

  absl::StatusOr<CommandResult> Run();

 private:
  absl::StatusOr<CommandResult> RunRecipe();
  const Recipe& recipe() const { return loaded_.recipe; }
  bool leads() const { return mesh_->rank() == 0; }
  const RunPaths& paths() const { return paths_; }

  // Shows on a page, that of who has started this rank where there is one, what it does from here on.
  absl::Status BeginPulse();
  // A phase of the run, for as long as it lives.
  TimeScope Phase(std::string_view name) { return TimeScope(&timeline_, kStepLane, name); }
  absl::Status JoinMesh();
  // The first rank of each host does it first, so that the others find what it has made.
  absl::Status InTurn(const std::function<absl::Status()>& work);
  absl::Status FindModel();
  absl::Status PrepareData();
  // Of the pipeline, which there is.
  absl::Status PlanStagesOfRanks();
  absl::Status PrepareModel();
  void DescribeOffload();
  // Of a run that begins with a checkpoint's weights: with the precision that it has, not that of the model.
  absl::Status TakeMasters();
  // Called by all ranks, before anything is read: where a run goes on, the one that leads takes its folder,
  // and chooses the checkpoint to go on from.
  absl::Status TakeUpRun();
  absl::Status TakeFolder();
  // Has those who watch know of the run, where no ftune has started this rank.
  void BeginWatch();
  // Of what is not opened any more the run keeps what it knew of it.
  absl::Status KeepInitInputs();
  // An error where the run has fewer steps than the checkpoint that it goes on from.
  absl::Status CheckStepsLeft() const;
  // What the run writes before its first step. Nothing that a run which goes on has written is removed.
  absl::Status BeginLog();
  // Of the data, which all that is there has been found to fit.
  absl::Status WriteDataFiles();
  absl::Status WriteStart(nlohmann::ordered_json facts);
  // Once all ranks have what they go on from: no later checkpoint, nor a later result, is of the line that
  // begins here.
  absl::Status LeaveLaterCheckpoints();
  absl::Status SetLaterAside();
  // Of calls between the ranks.
  void SetTimeout(double seconds);
  void DescribeMesh();
  void WarnOfUnevenShares();
  // Called by all ranks.
  absl::StatusOr<std::string> DescribeQuantized();
  void WarnOfWarmup(const LrOptions& rate);

  absl::StatusOr<CommandResult> Train();
  // Called by all ranks alike: each has a part of the model. There are answers on the one that leads.
  absl::StatusOr<std::vector<PromptAnswer>> Answer();
  // Whether this rank is to stop: by a signal, or after checkpoint.stop_after.
  bool Stops();
  ModelShards& shards();
  absl::Status MakeSaver();
  // The training state of the checkpoint that the run goes on from, if any; weights and optimizer have it.
  absl::StatusOr<std::optional<TrainerState>> Restore();
  // The weights of the best evaluation so far, as the result.
  absl::Status SaveBest(int64_t step);
  void MakeResults();
  absl::StatusOr<CommandResult> TestLearningRates();
  absl::StatusOr<CommandResult> Verify();

  TrainOptions options_;  // `resume` is known once the folder is taken
  bool json_;
  RankStart start_;
  LoadedRecipe loaded_;
  Progress progress_;
  HubReporter hub_;
  RunPaths paths_;
  Timeline timeline_;
  CallTimeline call_timeline_{timeline_};
  std::unique_ptr<PulseWriter> pulse_;
  std::unique_ptr<Mesh> mesh_;
  bool own_files_ = false;  // ranks may have read other files than this one
  double timeout_ = 0.0;    // in force, seconds
  const double started_ = Timeline::Now();
  std::optional<RunFolder> folder_;  // of the rank that leads
  std::optional<RunWatch> watch_;    // of that one, if it is supervised by nobody
  std::vector<SharedInput> inputs_;  // of that one too
  ModelPlan model_plan_;
  std::unique_ptr<TrainData> data_;
  std::optional<StopSignal> stop_;
  std::unique_ptr<Backend> backend_;
  std::optional<PipelinePlan> pipeline_plan_;  // none: one stage, as is with the next
  LoadedModel model_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<RunLog> log_;         // of the rank that leads
  std::unique_ptr<ModelShards> whole_;  // of a model that is not shared out
  std::unique_ptr<CheckpointSaver> saver_;
  std::optional<RunResults> results_;
};

}  // namespace ftune
