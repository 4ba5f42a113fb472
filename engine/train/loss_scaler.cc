#include "engine/train/loss_scaler.h"

#include <algorithm>

namespace ftune {

LossScaler::LossScaler(const LossScalerOptions& options) : options_(options) {
  state_.scale = options.constant.value_or(options.initial);
  state_.hysteresis = options.hysteresis;
}

void LossScaler::Update(bool overflow) {
  state_.overflows = overflow ? state_.overflows + 1 : 0;
  if (!dynamic()) return;
  if (overflow) {
    state_.good_steps = 0;
    if (--state_.hysteresis > 0) return;
    state_.hysteresis = 0;
    state_.scale = std::max(state_.scale * options_.backoff, options_.least);
  } else if (++state_.good_steps == options_.growth_interval) {
    state_.good_steps = 0;
    state_.hysteresis = options_.hysteresis;
    state_.scale *= options_.growth;
  }
}

bool LossScaler::gives_up() const { return state_.overflows >= (dynamic() ? options_.most_overflows : 1); }

}  // namespace ftune
