#include "engine/train/run_end.h"

namespace ftune {

bool EvaluationDue(const TrainerOptions& options, int64_t done) {
  if (done == options.learning_rate.total_steps) return true;
  return options.eval_steps && done % *options.eval_steps == 0;
}

RunEnd EndOf(const TrainerOptions& options, bool evaluates, const TrainerState& state) {
  const int64_t done = state.position.step;
  if (done == 0) return RunEnd::kNone;
  if (evaluates && EvaluationDue(options, done) && state.eval_step != done) return RunEnd::kNone;
  if (done >= options.learning_rate.total_steps) return RunEnd::kAllSteps;
  const bool out_of_patience = options.early_stopping_patience && state.best_loss &&
                               state.worse_in_a_row >= *options.early_stopping_patience;
  return out_of_patience ? RunEnd::kOutOfPatience : RunEnd::kNone;
}

}  // namespace ftune
