// The training loop: steps, evaluations, reports, until the last step or a stop.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/loader/batch_source.h"
#include "data/loader/data_plan.h"
#include "data/loader/prefetcher.h"
#include "engine/optim/lr_schedule.h"
#include "engine/train/model_flops.h"
#include "engine/train/reports.h"
#include "engine/train/step.h"
#include "engine/train/trainer_state.h"

namespace ftune {

// Saves the state of a run. All ranks call it alike, but for Wanted's answers.
class TrainCheckpoints {
 public:
  virtual ~TrainCheckpoints() = default;
  // Whether this rank wants the state behind `step`, which is about to begin. It is saved if any rank does.
  virtual bool Wanted(int64_t step) = 0;
  // Whether the state behind each evaluation that is the best so far is to be saved.
  virtual bool WantsBest() const = 0;
  // The weights, and what the optimizer has, are those behind the step. An error ends the run.
  virtual absl::Status Save(const TrainerState& state) = 0;
};

struct TrainerOptions {
  TrainStep::Options step;
  LrOptions learning_rate;  // its total_steps are those of the run
  // Evaluate every this many steps (and after the last); none: not between start and end.
  std::optional<int64_t> eval_steps;
  bool eval_on_start = true;
  // Stop after so many evaluations in a row that are not the best so far.
  std::optional<int64_t> early_stopping_patience;
  int64_t report_every = 1;
  TrainCheckpoints* checkpoints = nullptr;  // outlives the trainer; null: nothing is saved
  // What a checkpoint has of the trainer: the run goes on from there, as do the data and the optimizer.
  std::optional<TrainerState> resume;
  std::optional<int64_t> trace_step;  // whose timeline (of `step`, which has one then) is reported
};

struct TrainSummary {
  TrainerState state;       // behind the last step that was settled: what a later run goes on from
  bool stopped = false;     // by `stop`, before the last step
  bool data_ended = false;  // before the last step: streamed data that is not read twice
  bool early = false;       // by early_stopping_patience

  int64_t steps() const { return state.position.step; }  // done, or skipped
};

class Trainer {
 public:
  // All outlive the trainer. The steps go on from where the data stands. `evaluation` may be null; `shards`
  // as for TrainStep. Each rank has its own trainer, data, and observer, and `data` and `evaluation` give it
  // its own microbatches.
  Trainer(Backend& backend, Stream stream, Model& model, Optimizer& optimizer, BatchSource& data,
          const DataPlan* evaluation, const TrainerOptions& options, TrainObserver& observer,
          ModelShards* shards = nullptr, Pipeline* pipeline = nullptr);

  // As TrainStep's.
  const std::string& why_barrier() const { return step_.why_barrier(); }

  // Batches are made ahead, in another thread. A rank that is to stop stops all of them; one that fails makes
  // the others fail. An error (kNotFinite) where the loss or the gradients are not
  // finite, or overflow at every loss scale that is tried: the weights are then those of the step before.
  // Other errors are those of the data. Steps are reported in order, each when it is settled (TrainStep).
  absl::StatusOr<TrainSummary> Run(const std::function<bool()>& stop);

 private:
  absl::StatusOr<TrainSummary> RunSteps(const std::function<bool()>& stop);
  // A step from its begin until it is settled.
  struct MadeStep {
    int64_t step = 0;
    int64_t trained_tokens = 0;
    float learning_rate = 0.0f;
    double epoch = 0.0;  // behind it
    DataPosition next;   // behind it
    double start = 0.0, seconds = 0.0;
    double wait = 0.0;                  // for its batches
    int64_t sent_before = 0, sent = 0;  // bytes
  };

  // Steps that are settled are told to the observer and to `summary`. An error where one was not finite.
  absl::Status Settle(TrainSummary& summary);
  absl::Status OnSettled(const StepOutput& output, TrainSummary& summary);
  // Runs the last of the steps that are not settled; false where a rank is to stop, and it is none of them.
  absl::StatusOr<bool> MakeStep(const StepInput& input, const std::function<bool()>& stop,
                                TrainSummary& summary);
  // The next batches, if all ranks have them; otherwise `summary` says why not.
  absl::StatusOr<std::optional<StepBatches>> NextBatches(Prefetcher& prefetcher,
                                                         const std::function<bool()>& stop,
                                                         TrainSummary& summary);
  StepInput InputOf(StepBatches batches, bool has_next) const;
  void Begin(TrainSummary& summary);
  // Settles and evaluates, and saves, where that is due behind a step.
  absl::Status AfterStep(int64_t done, const std::function<bool()>& stop, TrainSummary& summary);
  void Report(const MadeStep& made, const StepOutput& output);
  // Reports a step that overflowed; an error where there have been too many.
  absl::Status Skip(int64_t step, const StepOutput& output);
  // Reports, and keeps in `summary` what it found; nothing where `stop` ended it.
  absl::Status Evaluate(int64_t done, const std::function<bool()>& stop, TrainSummary& summary);
  bool OutOfPatience(const TrainSummary& summary) const;
  // Begins to record, all ranks at once, where the step is the one to be traced.
  void BeginTrace(int64_t step);
  absl::Status EndTrace(double start, int64_t step);
  bool EvaluationDue(int64_t done) const;
  int64_t total_steps() const { return options_.learning_rate.total_steps; }

  Backend& backend_;
  Stream stream_;
  BatchSource& data_;
  const DataPlan* evaluation_;
  TrainerOptions options_;
  TrainObserver& observer_;
  Optimizer& optimizer_;
  TrainStep step_;
  ModelFlops flops_;
  std::deque<MadeStep> made_;   // not settled, in order
  bool all_have_next_ = false;  // all ranks have the next batches: nobody needs to ask
  bool save_wanted_ = false;    // by any rank, behind the step at hand
};

// Mean loss per trained token over a plan, without gradients, the same on all ranks of the mesh. What it is
// worth after an error the model's shards know.
struct EvalResult {
  double loss = 0.0;
  int64_t tokens = 0;
  bool stopped = false;  // by `stop`, between microbatches: the loss is not that of the whole plan
};
EvalResult EvaluateModel(Backend& backend, Stream stream, Runner& runner, ModelShards& shards,
                         const DataPlan& plan, const std::function<bool()>& stop);

}  // namespace ftune
