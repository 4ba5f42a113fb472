#include "engine/backend/cpu/swiglu.h"

#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/swiglu.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

HWY_INLINE VF Sigmoid(VF x) { return hn::Div(Set(1.0f), hn::Add(Set(1.0f), Exp(hn::Neg(x)))); }

void SwiGluRun(const float* gate, const float* up, int64_t count, float* out) {
  ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
    const VF g = part.Load(gate + i);
    part.Store(hn::Mul(hn::Mul(g, Sigmoid(g)), part.Load(up + i)), out + i);
  });
}

// dgate and dup may be gate and up; out may be null.
void SwiGluBackwardRun(const float* dout, const float* gate, const float* up, int64_t count, float* dgate,
                       float* dup, float* out) {
  ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
    const VF g = part.Load(gate + i);
    const VF u = part.Load(up + i);
    const VF d = part.Load(dout + i);
    const VF sigmoid = Sigmoid(g);
    const VF silu = hn::Mul(g, sigmoid);
    // silu'(g) = sigmoid + silu * (1 - sigmoid)
    const VF slope = hn::MulAdd(silu, hn::Sub(Set(1.0f), sigmoid), sigmoid);
    part.Store(hn::Mul(hn::Mul(d, u), slope), dgate + i);
    part.Store(hn::Mul(d, silu), dup + i);
    if (out != nullptr) part.Store(hn::Mul(silu, u), out + i);
  });
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(SwiGluRun);
HWY_EXPORT(SwiGluBackwardRun);

void SwiGluForward(ThreadPool& pool, const Tensor& gate, const Tensor& up, const Tensor& out) {
  const bool contiguous = gate.contiguous() && up.contiguous() && out.contiguous();
  ParallelPieces(pool, out.rows(), out.cols(), contiguous, [&](int64_t row, int64_t begin, int64_t count) {
    const auto at = [&](const Tensor& x) { return x.f32() + row * x.stride() + begin; };
    HWY_DYNAMIC_DISPATCH(SwiGluRun)(at(gate), at(up), count, at(out));
  });
}

void SwiGluBackward(ThreadPool& pool, const Tensor& dout, const Tensor& gate, const Tensor& up,
                    const Tensor& dgate, const Tensor& dup, const Tensor& out) {
  const bool contiguous = dout.contiguous() && gate.contiguous() && up.contiguous() && dgate.contiguous() &&
                          dup.contiguous() && (!out.defined() || out.contiguous());
  ParallelPieces(pool, dout.rows(), dout.cols(), contiguous, [&](int64_t row, int64_t begin, int64_t count) {
    const auto at = [&](const Tensor& x) { return x.f32() + row * x.stride() + begin; };
    HWY_DYNAMIC_DISPATCH(SwiGluBackwardRun)
    (at(dout), at(gate), at(up), count, at(dgate), at(dup), out.defined() ? at(out) : nullptr);
  });
}

}  // namespace ftune::cpu
#endif
