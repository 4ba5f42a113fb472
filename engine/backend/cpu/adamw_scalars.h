// The scalars of a step of AdamW, each computed in double and rounded once, as PyTorch does.
#pragma once

#include <cmath>

#include "engine/backend/cpu/weight_update.h"

namespace ftune::cpu {

struct AdamWScalars {
  float gradient_scale;
  float keep;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float sqrt_bias_correction2;
  float eps;
  float step_size;  // learning rate / bias correction 1
};

// Of AdamWArgs or AdamW8bitArgs.
template <class Args>
AdamWScalars MakeAdamWScalars(const Args& args) {
  const double beta1 = args.beta1;
  const double beta2 = args.beta2;
  const double step = static_cast<double>(args.step);
  return {
      .gradient_scale = *args.update.gradient_scale.f32(),
      .keep = Keep(args.update),
      .one_minus_beta1 = static_cast<float>(1.0 - beta1),
      .beta2 = static_cast<float>(beta2),
      .one_minus_beta2 = static_cast<float>(1.0 - beta2),
      .sqrt_bias_correction2 = static_cast<float>(std::sqrt(1.0 - std::pow(beta2, step))),
      .eps = args.eps,
      .step_size = static_cast<float>(args.update.learning_rate / (1.0 - std::pow(beta1, step))),
  };
}

}  // namespace ftune::cpu
