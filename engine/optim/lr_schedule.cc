#include "engine/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ftune {

double LearningRate(const LrOptions& o, int64_t step) {
  if (o.schedule == LrSchedule::kExponential) {
    const double last = static_cast<double>(std::max<int64_t>(1, o.total_steps - 1));
    return o.peak * std::pow(o.min_ratio, 1.0 - static_cast<double>(step) / last);
  }
  if (step < o.warmup_steps) return o.peak * static_cast<double>(step) / static_cast<double>(o.warmup_steps);
  const int64_t length = std::max<int64_t>(1, o.total_steps - o.warmup_steps);
  const double progress =
      std::min(1.0, static_cast<double>(step - o.warmup_steps) / static_cast<double>(length));
  double share = 1.0;  // of the way from the minimum to the peak
  switch (o.schedule) {
    case LrSchedule::kConstant:
      return o.peak;
    case LrSchedule::kLinear:
      share = 1.0 - progress;
      break;
    case LrSchedule::kExponential:
      break;  // above
    case LrSchedule::kCosine:
      share = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
      break;
  }
  return o.peak * (o.min_ratio + (1.0 - o.min_ratio) * share);
}

int64_t WarmupSteps(double ratio, int64_t total_steps) {
  constexpr double kRounding = 1e-9;  // 0.29 × 100 is 29
  const auto steps = static_cast<int64_t>(std::floor(ratio * static_cast<double>(total_steps) + kRounding));
  return std::clamp<int64_t>(steps, 0, std::max<int64_t>(0, total_steps - 1));
}

}  // namespace ftune
