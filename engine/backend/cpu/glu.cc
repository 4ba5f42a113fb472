#include "engine/backend/cpu/glu.h"

#include <initializer_list>

#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/glu.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

void GluRun(Activation activation, const float* gate, const float* up, int64_t count, float* out) {
  WithActivation(activation, [&](auto function) HWY_ATTR {
    ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
      part.Store(hn::Mul(function.At(part.Load(gate + i)).value, part.Load(up + i)), out + i);
    });
  });
}

// dgate and dup may be gate and up; out may be null.
void GluBackwardRun(Activation activation, const float* dout, const float* gate, const float* up,
                    int64_t count, float* dgate, float* dup, float* out) {
  WithActivation(activation, [&](auto function) HWY_ATTR {
    ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
      const Curve f = function.At(part.Load(gate + i));
      const VF u = part.Load(up + i);
      const VF d = part.Load(dout + i);
      part.Store(hn::Mul(hn::Mul(d, u), f.slope), dgate + i);
      part.Store(hn::Mul(d, f.value), dup + i);
      if (out != nullptr) part.Store(hn::Mul(f.value, u), out + i);
    });
  });
}

void ActivationRun(Activation activation, const float* x, int64_t count, float* out) {
  WithActivation(activation, [&](auto function) HWY_ATTR {
    ForVectors(count, [&](auto part, int64_t i)
                          HWY_ATTR { part.Store(function.At(part.Load(x + i)).value, out + i); });
  });
}

// dx may be x or dout; out may be null.
void ActivationBackwardRun(Activation activation, const float* dout, const float* x, int64_t count, float* dx,
                           float* out) {
  WithActivation(activation, [&](auto function) HWY_ATTR {
    ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
      const Curve f = function.At(part.Load(x + i));
      part.Store(hn::Mul(part.Load(dout + i), f.slope), dx + i);
      if (out != nullptr) part.Store(f.value, out + i);
    });
  });
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {
namespace {

HWY_EXPORT(GluRun);
HWY_EXPORT(GluBackwardRun);
HWY_EXPORT(ActivationRun);
HWY_EXPORT(ActivationBackwardRun);

// body(at, count) for pieces of matrices of one shape: at(x) is where the piece of x begins, null where x is
// undefined.
template <class Body>
void ForPieces(ThreadPool& pool, std::initializer_list<Tensor> operands, const Body& body) {
  bool contiguous = true;
  for (const Tensor& x : operands) contiguous &= !x.defined() || x.contiguous();
  const Tensor& first = *operands.begin();
  ParallelPieces(pool, first.rows(), first.cols(), contiguous,
                 [&](int64_t row, int64_t begin, int64_t count) {
                   const auto at = [&](const Tensor& x) {
                     return x.defined() ? x.f32() + row * x.stride() + begin : nullptr;
                   };
                   body(at, count);
                 });
}

}  // namespace

void GluForward(ThreadPool& pool, Activation activation, const Tensor& gate, const Tensor& up,
                const Tensor& out) {
  ForPieces(pool, {out, gate, up}, [&](const auto& at, int64_t count) {
    HWY_DYNAMIC_DISPATCH(GluRun)(activation, at(gate), at(up), count, at(out));
  });
}

void GluBackward(ThreadPool& pool, Activation activation, const Tensor& dout, const Tensor& gate,
                 const Tensor& up, const Tensor& dgate, const Tensor& dup, const Tensor& out) {
  ForPieces(pool, {dout, gate, up, dgate, dup, out}, [&](const auto& at, int64_t count) {
    HWY_DYNAMIC_DISPATCH(GluBackwardRun)
    (activation, at(dout), at(gate), at(up), count, at(dgate), at(dup), at(out));
  });
}

void ActivationForward(ThreadPool& pool, Activation activation, const Tensor& x, const Tensor& out) {
  ForPieces(pool, {out, x}, [&](const auto& at, int64_t count) {
    HWY_DYNAMIC_DISPATCH(ActivationRun)(activation, at(x), count, at(out));
  });
}

void ActivationBackward(ThreadPool& pool, Activation activation, const Tensor& dout, const Tensor& x,
                        const Tensor& dx, const Tensor& out) {
  ForPieces(pool, {dout, x, dx, out}, [&](const auto& at, int64_t count) {
    HWY_DYNAMIC_DISPATCH(ActivationBackwardRun)(activation, at(dout), at(x), count, at(dx), at(out));
  });
}

}  // namespace ftune::cpu
#endif
