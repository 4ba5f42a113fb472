#include "engine/backend/cpu/matmul.h"

#include <algorithm>

#include "engine/backend/cpu/dequant.h"
#include "engine/backend/cpu/gemm.h"
#include "engine/backend/cpu/gemv.h"

namespace ftune::cpu {
namespace {

constexpr int64_t kPanelBytes = int64_t{8} << 20;

bool FewRows(const MatMulArgs& args) { return !args.trans_a && args.trans_b && args.m() <= kGemvRows; }

// Stored rows of b in a panel.
int64_t PanelRows(const Tensor& b) {
  const int64_t row_bytes = b.cols() * static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(kPanelBytes / std::max<int64_t>(1, row_bytes), 1,
                             std::max<int64_t>(1, b.rows()));
}

// Of a product's second operand as it is multiplied.
int64_t StrideOfB(const Tensor& b) { return b.dtype() == DType::kF32 ? b.stride() : b.cols(); }

int64_t PanelFloats(const Tensor& b) { return b.dtype() == DType::kF32 ? 0 : PanelRows(b) * b.cols(); }

GemmOperand Operand(const Tensor& x, bool transposed) { return {x.f32(), x.stride(), transposed}; }

}  // namespace

int64_t MatMulWorkspaceBytes(const MatMulArgs& args, int threads) {
  if (FewRows(args)) return 0;
  const int64_t scratch =
      GemmScratchFloats({nullptr, args.a.stride(), args.trans_a}, {nullptr, StrideOfB(args.b), args.trans_b});
  return (PanelFloats(args.b) + threads * scratch) * static_cast<int64_t>(sizeof(float));
}

void MatMul(ThreadPool& pool, const MatMulArgs& args, const Tensor& workspace) {
  const int64_t m = args.m(), n = args.n(), k = args.k();
  float* c = args.c.f32();
  const int64_t c_stride = args.c.stride();
  if (FewRows(args)) return Gemv(pool, args);
  auto* panel = reinterpret_cast<float*>(workspace.bytes());  // may be none
  float* scratch = panel + PanelFloats(args.b);
  if (args.b.dtype() == DType::kF32) {
    return Gemm(pool, m, n, k, args.alpha, Operand(args.a, args.trans_a), Operand(args.b, args.trans_b),
                args.beta, c, c_stride, scratch);
  }
  const int64_t panel_rows = PanelRows(args.b);
  for (int64_t first = 0; first < args.b.rows(); first += panel_rows) {
    const int64_t rows = std::min(panel_rows, args.b.rows() - first);
    Dequantize(pool, args.b.Rows(first, rows), panel, args.b.cols());
    const GemmOperand b = {panel, args.b.cols(), args.trans_b};
    if (args.trans_b) {  // a panel gives columns of c
      Gemm(pool, m, rows, k, args.alpha, Operand(args.a, args.trans_a), b, args.beta, c + first, c_stride,
           scratch);
    } else {  // a panel is a part of the sum
      const Tensor a = args.trans_a ? args.a.Rows(first, rows) : args.a.Cols(first, rows);
      Gemm(pool, m, n, rows, args.alpha, Operand(a, args.trans_a), b, first == 0 ? args.beta : 1.0f, c,
           c_stride, scratch);
    }
  }
}

}  // namespace ftune::cpu
