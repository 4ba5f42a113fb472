// Sends what a run reports to its log and to the display, and acts on its steps and evaluations.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "cmd/prompt.h"
#include "cmd/report/progress.h"
#include "cmd/report/run_log.h"
#include "engine/train/reports.h"

namespace ftune {

class RunObserver final : public TrainObserver {
 public:
  // `log` is null on ranks that keep none.
  RunObserver(RunLog* log, Progress& progress) : log_(log), progress_(progress) {}

  // Asked at each evaluation.
  using Answers = std::function<absl::StatusOr<std::vector<PromptAnswer>>()>;
  void set_answers(Answers answers) { answers_ = std::move(answers); }
  // Called at each evaluation that is the best so far.
  void set_on_best(std::function<absl::Status(int64_t step)> on_best) { on_best_ = std::move(on_best); }

  // Called once, when a step is done.
  void set_on_first_step(std::function<void()> on_first_step) { on_first_step_ = std::move(on_first_step); }

  // Takes the timeline of a step.
  void set_on_trace(std::function<absl::Status(TraceReport)> on_trace) { on_trace_ = std::move(on_trace); }

  void OnStep(const StepReport& report) override;
  void OnSkip(const SkipReport& report) override;
  absl::Status OnEval(const EvalReport& report) override;
  absl::Status OnTrace(TraceReport report) override;

 private:
  void FirstStep();

  RunLog* log_;
  Progress& progress_;
  Answers answers_;
  std::function<absl::Status(int64_t)> on_best_;
  std::function<void()> on_first_step_;
  std::function<absl::Status(TraceReport)> on_trace_;
};

}  // namespace ftune
