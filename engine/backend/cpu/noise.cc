#include "engine/backend/cpu/noise.h"

#include "engine/backend/cpu/draws.h"
#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/noise.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

void NoiseRow(uint64_t key, uint64_t token, float amplitude, int64_t cols, float* x) {
  ForUniform(key, token, 0, cols, [&](auto part, int64_t i, VF uniform) HWY_ATTR {
    const VF symmetric = hn::MulSub(uniform, Set(2.0f), Set(1.0f));
    part.Store(hn::MulAdd(symmetric, Set(amplitude), part.Load(x + i)), x + i);
  });
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(NoiseRow);

void UniformNoise(ThreadPool& pool, const NoiseArgs& args, const Tensor& x) {
  const uint64_t key = DrawKey(args.seed, args.step, args.site);
  ParallelRows(pool, x.rows(), x.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float amplitude = args.amplitudes.f32()[t];
      if (amplitude == 0.0f) continue;
      HWY_DYNAMIC_DISPATCH(NoiseRow)
      (key, static_cast<uint64_t>(args.first_token + t), amplitude, x.cols(), x.f32() + t * x.stride());
    }
  });
}

}  // namespace ftune::cpu
#endif
