// The activation functions with their slopes; compiled once for each instruction set.

#if defined(FTUNE_ENGINE_BACKEND_CPU_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FTUNE_ENGINE_BACKEND_CPU_ACTIVATION_INL_H_
#undef FTUNE_ENGINE_BACKEND_CPU_ACTIVATION_INL_H_
#else
#define FTUNE_ENGINE_BACKEND_CPU_ACTIVATION_INL_H_
#endif

#include "engine/backend/activation.h"
#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

// A function's value and its derivative.
struct Curve {
  VF value, slope;
};

// 1 / (1 + e^-x)
HWY_INLINE Curve Logistic(VF x) {
  const VF e = ExpNonPositive(hn::Neg(hn::Abs(x)));
  const VF upper = hn::Div(Set(1.0f), hn::Add(Set(1.0f), e));  // at |x|
  const VF lower = hn::Mul(e, upper);
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(F32())), lower, upper), hn::Mul(lower, upper)};
}

struct Silu {
  static HWY_INLINE Curve At(VF x) {
    const Curve gate = Logistic(x);
    return {hn::Mul(x, gate.value), hn::MulAdd(x, gate.slope, gate.value)};
  }
};

// 0.5 (1 + tanh(u)) is the logistic function of 2u, which loses nothing where tanh comes near -1.
struct GeluTanh {
  static HWY_INLINE Curve At(VF x) {
    constexpr float kLinear = 1.5957691216057308f;  // 2 sqrt(2 / π)
    constexpr float kCubic = 0.044715f * kLinear;
    // Beyond 10 the gate is 0 or 1 to the last bit; held there, nothing overflows.
    const VF low = hn::IfThenElse(hn::Lt(x, Set(-10.0f)), Set(-10.0f), x);
    const VF held = hn::IfThenElse(hn::Gt(low, Set(10.0f)), Set(10.0f), low);
    const VF square = hn::Mul(held, held);
    const Curve gate = Logistic(hn::Mul(held, hn::MulAdd(square, Set(kCubic), Set(kLinear))));
    const VF inner = hn::MulAdd(square, Set(3.0f * kCubic), Set(kLinear));
    return {hn::Mul(x, gate.value), hn::MulAdd(hn::Mul(held, inner), gate.slope, gate.value)};
  }
};

// x Φ(x). With a = |x|, Φ(-a) = e^(-a²/2) R(a); R, half the scaled complementary error function, is t P(t),
// t = 1 / (1 + 0.3 a), P of degree 9 fitted to 4e-9 (relative) on [0, 13.3], beyond which the exponential is
// 0.
struct Gelu {
  static HWY_INLINE Curve At(VF x) {
    constexpr float kPolynomial[] = {-2.0584656e-2f, 1.1221713e-1f, -2.2767959e-1f, 1.9104212e-1f,
                                     -7.8777797e-2f, 9.5793295e-2f, 7.8521856e-2f,  1.1020555e-1f,
                                     1.1957561e-1f,  1.1968648e-1f};
    const VF size = hn::Abs(x);
    const VF e = ExpNonPositive(hn::Mul(hn::Mul(x, x), Set(-0.5f)));
    const VF t = hn::Div(Set(1.0f), hn::MulAdd(size, Set(0.3f), Set(1.0f)));
    VF p = Set(kPolynomial[0]);
    for (int i = 1; i < 10; ++i) p = hn::MulAdd(p, t, Set(kPolynomial[i]));
    const VF tail = hn::Mul(hn::Mul(p, t), e);
    const VF share = hn::IfThenElse(hn::Lt(x, hn::Zero(F32())), tail, hn::Sub(Set(1.0f), tail));
    constexpr float kDensity = 0.3989422804014327f;  // 1 / sqrt(2π)
    return {hn::Mul(x, share), hn::MulAdd(hn::Mul(x, Set(kDensity)), e, share)};
  }
};

// body(function) for the function that `activation` names.
template <class Body>
HWY_INLINE void WithActivation(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::kSilu:
      return body(Silu());
    case Activation::kGeluTanh:
      return body(GeluTanh());
    case Activation::kGelu:
      return body(Gelu());
  }
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
