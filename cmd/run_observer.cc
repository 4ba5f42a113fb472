#include "cmd/run_observer.h"

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

void RunObserver::FirstStep() {
  if (!on_first_step_) return;
  on_first_step_();
  on_first_step_ = nullptr;
}

void RunObserver::OnStep(const StepReport& report) {
  FirstStep();
  if (log_ != nullptr) log_->Step(report);
  progress_.Step(report);
}

void RunObserver::OnSkip(const SkipReport& report) {
  FirstStep();
  if (log_ != nullptr) log_->Skip(report);
  progress_.Skip(report);
}

absl::Status RunObserver::OnTrace(TraceReport report) {
  return on_trace_ ? on_trace_(std::move(report)) : absl::OkStatus();
}

absl::Status RunObserver::OnEval(const EvalReport& report) {
  std::vector<PromptAnswer> answers;
  if (answers_) {
    FTUNE_ASSIGN_OR_RETURN(answers, answers_());
  }
  if (log_ != nullptr) log_->Eval(report, answers);
  progress_.Eval(report);
  for (const PromptAnswer& answer : answers) {
    progress_.Say(StrCat("  > ", answer.prompt, "\n  ", answer.text));
  }
  if (report.best && on_best_) return on_best_(report.step);
  return absl::OkStatus();
}

}  // namespace ftune
