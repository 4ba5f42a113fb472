#include <cmath>

#include "engine/backend/cpu/optimizers.h"
#include "engine/backend/cpu/targets.h"
#include "engine/backend/cpu/weight_update.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/adamw.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/adamw-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

void AdamWRun(const AdamWScalars& s, int64_t count, const float* gradients, float* weights, float* moment1,
              float* moment2) {
  ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
    VF m = part.Load(moment1 + i);
    VF v = part.Load(moment2 + i);
    part.Store(AdamWStep(s, part.Load(gradients + i), part.Load(weights + i), m, v), weights + i);
    part.Store(m, moment1 + i);
    part.Store(v, moment2 + i);
  });
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(AdamWRun);

void AdamW(ThreadPool& pool, const AdamWArgs& args) {
  const AdamWScalars scalars = MakeAdamWScalars(args);
  const float* gradients = args.update.gradients.f32();
  UpdatePieces(pool, args.update, [&](int64_t begin, int64_t count, float* weights) {
    HWY_DYNAMIC_DISPATCH(AdamWRun)
    (scalars, count, gradients + begin, weights, args.moment1.f32() + begin, args.moment2.f32() + begin);
  });
}

}  // namespace ftune::cpu
#endif
