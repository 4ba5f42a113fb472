#include "engine/backend/cpu/optimizers.h"

#include <algorithm>
#include <cmath>

#include "engine/backend/cpu/dequant.h"
#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/optimizers.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/simd-inl.h"

namespace ftune::cpu {
#ifndef FTUNE_ENGINE_BACKEND_CPU_OPTIMIZERS_ONCE_
#define FTUNE_ENGINE_BACKEND_CPU_OPTIMIZERS_ONCE_

// The scalars of one step, each computed in double and rounded once, as PyTorch does.
struct AdamWScalars {
  float gradient_scale;
  float keep;  // 1 - learning rate * weight decay
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float sqrt_bias_correction2;
  float eps;
  float step_size;  // learning rate / bias correction 1
};

struct SgdScalars {
  float gradient_scale;
  float weight_decay;
  float learning_rate;
};

#endif
}  // namespace ftune::cpu

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

void AdamWRun(const AdamWScalars& s, int64_t count, const float* gradients, float* weights, float* moment1,
              float* moment2) {
  ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
    const VF g = hn::Mul(part.Load(gradients + i), Set(s.gradient_scale));
    const VF decayed = hn::Mul(part.Load(weights + i), Set(s.keep));
    const VF before = part.Load(moment1 + i);
    const VF m = hn::MulAdd(Set(s.one_minus_beta1), hn::Sub(g, before), before);
    const VF v =
        hn::MulAdd(hn::Mul(Set(s.one_minus_beta2), g), g, hn::Mul(part.Load(moment2 + i), Set(s.beta2)));
    const VF denominator = hn::Add(hn::Div(hn::Sqrt(v), Set(s.sqrt_bias_correction2)), Set(s.eps));
    part.Store(m, moment1 + i);
    part.Store(v, moment2 + i);
    part.Store(hn::NegMulAdd(Set(s.step_size), hn::Div(m, denominator), decayed), weights + i);
  });
}

void SgdRun(const SgdScalars& s, int64_t count, const float* gradients, float* weights) {
  ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
    const VF w = part.Load(weights + i);
    const VF g = hn::MulAdd(Set(s.weight_decay), w, hn::Mul(part.Load(gradients + i), Set(s.gradient_scale)));
    part.Store(hn::NegMulAdd(Set(s.learning_rate), g, w), weights + i);
  });
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {
namespace {

HWY_EXPORT(AdamWRun);
HWY_EXPORT(SgdRun);

// update(begin, count, weight_decay) over pieces of all ranges, small enough that the rounded copy of the
// weights is made from the cache.
template <class Args, class Update>
void UpdatePieces(ThreadPool& pool, const Args& args, const Update& update) {
  constexpr int64_t kRun = 4096;
  for (const DecayRange& range : args.decay) {
    ParallelRanges(pool, range.count, kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kRun) {
        const int64_t first = range.begin + i;
        const int64_t count = std::min(kRun, end - i);
        update(first, count, range.weight_decay);
        if (!args.low.defined()) continue;
        const DType low = args.low.dtype();
        FromF32(low, args.weights.f32() + first, count, args.low.bytes() + BytesFor(low, first));
      }
    });
  }
}

}  // namespace

void AdamW(ThreadPool& pool, const AdamWArgs& args) {
  const double beta1 = args.beta1;
  const double beta2 = args.beta2;
  const double step = static_cast<double>(args.step);
  AdamWScalars scalars = {
      .gradient_scale = *args.gradient_scale.f32(),
      .keep = 1.0f,
      .one_minus_beta1 = static_cast<float>(1.0 - beta1),
      .beta2 = static_cast<float>(beta2),
      .one_minus_beta2 = static_cast<float>(1.0 - beta2),
      .sqrt_bias_correction2 = static_cast<float>(std::sqrt(1.0 - std::pow(beta2, step))),
      .eps = static_cast<float>(args.eps),
      .step_size = static_cast<float>(args.learning_rate / (1.0 - std::pow(beta1, step))),
  };
  UpdatePieces(pool, args, [&](int64_t first, int64_t count, float weight_decay) {
    AdamWScalars s = scalars;
    s.keep = static_cast<float>(1.0 - static_cast<double>(args.learning_rate) * weight_decay);
    HWY_DYNAMIC_DISPATCH(AdamWRun)
    (s, count, args.gradients.f32() + first, args.weights.f32() + first, args.moment1.f32() + first,
     args.moment2.f32() + first);
  });
}

void Sgd(ThreadPool& pool, const SgdArgs& args) {
  UpdatePieces(pool, args, [&](int64_t first, int64_t count, float weight_decay) {
    const SgdScalars s = {.gradient_scale = *args.gradient_scale.f32(),
                          .weight_decay = weight_decay,
                          .learning_rate = static_cast<float>(args.learning_rate)};
    HWY_DYNAMIC_DISPATCH(SgdRun)(s, count, args.gradients.f32() + first, args.weights.f32() + first);
  });
}

}  // namespace ftune::cpu
#endif
