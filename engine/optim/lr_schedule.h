// The learning rate as a pure function of the step.
#pragma once

#include <cstdint>

namespace ftune {

enum class LrSchedule {
  kConstant,
  kLinear,
  kCosine,
  kExponential,  // from peak * min_ratio at the first step to the peak at the last: a range test
};

struct LrOptions {
  LrSchedule schedule = LrSchedule::kCosine;
  double peak = 2e-5;
  double min_ratio = 0.0;  // of the peak, reached at the end
  int64_t warmup_steps = 0;
  int64_t total_steps = 1;
};

// For 0-based `step`. Warm-up is linear from 0: step s of w has peak * s / w; then the schedule runs from the
// peak at step w to peak * min_ratio at step total_steps, as transformers' get_…_schedule_with_warmup.
double LearningRate(const LrOptions& options, int64_t step);

// Steps of a warm-up that is a share of a run's steps: rounded down, and never all of them, so that a short
// run trains at more than a rate of 0.
int64_t WarmupSteps(double ratio, int64_t total_steps);

}  // namespace ftune
