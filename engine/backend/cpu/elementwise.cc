#include "engine/backend/cpu/elementwise.h"

#include <algorithm>
#include <cstring>

#include "engine/backend/cpu/dequant.h"
#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/elementwise.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

void AddKernel(const float* x, int64_t count, float* y) {
  ForVectors(count, [&](auto part, int64_t i)
                        HWY_ATTR { part.Store(hn::Add(part.Load(y + i), part.Load(x + i)), y + i); });
}

void ScaleKernel(float factor, int64_t count, float* x) {
  ForVectors(count, [&](auto part, int64_t i)
                        HWY_ATTR { part.Store(hn::Mul(part.Load(x + i), Set(factor)), x + i); });
}

void SoftCapKernel(float cap, int64_t count, float* x) {
  ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
    part.Store(hn::Mul(Tanh(hn::Mul(part.Load(x + i), Set(1.0f / cap))), Set(cap)), x + i);
  });
}

void MultiplyKernel(const float* factor, const float* x, int64_t count, float* y) {
  ForVectors(count, [&](auto part, int64_t i)
                        HWY_ATTR { part.Store(hn::Mul(part.Load(x + i), part.Load(factor + i)), y + i); });
}

void DivideKernel(const float* x, const float* y, int64_t count, float* out) {
  ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
    const VF divisor = part.Load(y + i);
    const VF quotient = hn::Div(part.Load(x + i), divisor);
    part.Store(hn::IfThenElse(hn::Eq(divisor, Set(0.0f)), Set(0.0f), quotient), out + i);
  });
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {
namespace {

HWY_EXPORT(AddKernel);
HWY_EXPORT(ScaleKernel);
HWY_EXPORT(SoftCapKernel);
HWY_EXPORT(MultiplyKernel);
HWY_EXPORT(DivideKernel);

// to[row, begin …] = from[row, begin …]
void ConvertRun(const Tensor& from, int64_t row, int64_t begin, int64_t count, const Tensor& to_tensor) {
  const DType to_type = to_tensor.dtype();
  std::byte* to = RowBytes(to_tensor, row) + BytesFor(to_type, begin);
  if (from.dtype() == to_type) {
    std::memcpy(to, RowBytes(from, row) + BytesFor(to_type, begin), BytesFor(to_type, count));
  } else if (from.dtype() == DType::kF32) {
    FromF32(to_type, from.f32() + row * from.stride() + begin, count, to);
  } else if (to_type == DType::kF32) {
    ReadRow(from, row, begin, count, reinterpret_cast<float*>(to));
  } else {
    constexpr int64_t kRun = 1024;
    float values[kRun];
    for (int64_t i = 0; i < count; i += kRun) {
      const int64_t n = std::min(kRun, count - i);
      ReadRow(from, row, begin + i, n, values);
      FromF32(to_type, values, n, to + BytesFor(to_type, i));
    }
  }
}

}  // namespace

void Zero(ThreadPool& pool, const Tensor& x) {
  ParallelPieces(pool, x.rows(), x.cols(), x.contiguous(), [&](int64_t row, int64_t begin, int64_t count) {
    std::memset(RowBytes(x, row) + BytesFor(x.dtype(), begin), 0, BytesFor(x.dtype(), count));
  });
}

void Convert(ThreadPool& pool, const Tensor& from, const Tensor& to) {
  const bool contiguous = from.contiguous() && to.contiguous();
  ParallelPieces(pool, to.rows(), to.cols(), contiguous,
                 [&](int64_t row, int64_t begin, int64_t count) { ConvertRun(from, row, begin, count, to); });
}

void Add(ThreadPool& pool, const Tensor& x, const Tensor& y) {
  const bool contiguous = x.contiguous() && y.contiguous();
  ParallelPieces(pool, x.rows(), x.cols(), contiguous, [&](int64_t row, int64_t begin, int64_t count) {
    HWY_DYNAMIC_DISPATCH(AddKernel)
    (x.f32() + row * x.stride() + begin, count, y.f32() + row * y.stride() + begin);
  });
}

void Scale(ThreadPool& pool, const Tensor& x, float factor) {
  ParallelPieces(pool, x.rows(), x.cols(), x.contiguous(), [&](int64_t row, int64_t begin, int64_t count) {
    HWY_DYNAMIC_DISPATCH(ScaleKernel)(factor, count, x.f32() + row * x.stride() + begin);
  });
}

void SoftCap(ThreadPool& pool, float cap, const Tensor& x) {
  ParallelPieces(pool, x.rows(), x.cols(), x.contiguous(), [&](int64_t row, int64_t begin, int64_t count) {
    HWY_DYNAMIC_DISPATCH(SoftCapKernel)(cap, count, x.f32() + row * x.stride() + begin);
  });
}

void Divide(ThreadPool& pool, const Tensor& x, const Tensor& y, const Tensor& out) {
  const bool contiguous = x.contiguous() && y.contiguous() && out.contiguous();
  ParallelPieces(pool, out.rows(), out.cols(), contiguous, [&](int64_t row, int64_t begin, int64_t count) {
    HWY_DYNAMIC_DISPATCH(DivideKernel)
    (x.f32() + row * x.stride() + begin, y.f32() + row * y.stride() + begin, count,
     out.f32() + row * out.stride() + begin);
  });
}

void ColumnScale(ThreadPool& pool, const Tensor& factor, const Tensor& x, const Tensor& y) {
  ParallelRows(pool, x.rows(), x.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      HWY_DYNAMIC_DISPATCH(MultiplyKernel)
      (factor.f32(), x.f32() + row * x.stride(), x.cols(), y.f32() + row * y.stride());
    }
  });
}

void AddBias(ThreadPool& pool, const Tensor& bias, const Tensor& y) {
  const F32Row row_bias(bias);
  ParallelRows(pool, y.rows(), y.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      HWY_DYNAMIC_DISPATCH(AddKernel)(row_bias.data(), y.cols(), y.f32() + row * y.stride());
    }
  });
}

}  // namespace ftune::cpu
#endif
