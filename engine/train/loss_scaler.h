// The factor on the loss that keeps gradients of a model in fp16 above its smallest number (Micikevicius et
// al., "Mixed precision training", 2018, section 3.2), grown while it can and backed off where gradients
// overflow. Constants are torch.amp.GradScaler's, hysteresis is Megatron-LM's.
//
// The CPU backend stores weights in fp16 but computes and accumulates gradients in f32: there they overflow
// only beyond f32's range.
#pragma once

#include <cstdint>
#include <optional>

namespace ftune {

struct LossScalerOptions {
  std::optional<double> constant;  // never changed; none: dynamic
  double initial = 65536.0;
  double growth = 2.0;
  double backoff = 0.5;
  int64_t growth_interval = 2000;  // good steps before it grows
  int64_t hysteresis = 2;          // overflows before it backs off; a growth gives them back
  double least = 1.0;
  int64_t most_overflows = 20;  // steps running, before it gives up
};

class LossScaler {
 public:
  // All that changes; a checkpoint saves it.
  struct State {
    double scale = 1.0;
    int64_t good_steps = 0;  // since the last overflow or growth
    int64_t hysteresis = 0;  // left
    int64_t overflows = 0;   // steps running
  };

  explicit LossScaler(const LossScalerOptions& options);

  double scale() const { return state_.scale; }
  bool dynamic() const { return !options_.constant; }
  // After a step: a power of two remains a power of two, so that the scale costs no precision.
  void Update(bool overflow);
  // No scale that it will come to helps.
  bool gives_up() const;

  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  LossScalerOptions options_;
  State state_;
};

}  // namespace ftune
