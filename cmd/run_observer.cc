#include "cmd/run_observer.h"

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

void RunObserver::OnStep(const StepReport& report) {
  log_.Step(report);
  progress_.Step(report);
}

void RunObserver::OnSkip(const SkipReport& report) {
  log_.Skip(report);
  progress_.Skip(report);
}

absl::Status RunObserver::OnEval(const EvalReport& report) {
  std::vector<PromptAnswer> answers;
  if (answers_) {
    FTUNE_ASSIGN_OR_RETURN(answers, answers_());
  }
  log_.Eval(report, answers);
  progress_.Eval(report);
  for (const PromptAnswer& answer : answers) {
    progress_.Say(StrCat("  > ", answer.prompt, "\n  ", answer.text));
  }
  if (report.best && on_best_) return on_best_(report.step);
  return absl::OkStatus();
}

}  // namespace ftune
