// When a run has come to its end.
#pragma once

#include <cstdint>

#include "engine/train/trainer.h"

namespace ftune {

enum class RunEnd { kNone, kAllSteps, kOutOfPatience };

// Whether an evaluation belongs behind so many steps of a run that evaluates.
bool EvaluationDue(const TrainerOptions& options, int64_t done);

// Why no step follows a state that training has left. Where an evaluation of it is still to be made, that
// decides: the end has not come yet.
RunEnd EndOf(const TrainerOptions& options, bool evaluates, const TrainerState& state);

}  // namespace ftune
