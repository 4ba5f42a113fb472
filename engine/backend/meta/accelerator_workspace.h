// Memory that work on an accelerator needs, for plans: what libraries take for products and attention is in a
// device's `runtime`.
#pragma once

#include "engine/backend/cpu/cpu_workspace.h"

namespace ftune {

class AcceleratorWorkspaceSizes final : public WorkspaceSizes {
 public:
  // A thousand rows and more of the largest vocabularies: the products with them reach their rate.
  int64_t Scores() const override { return int64_t{1} << 30; }
  int64_t MatMul(const MatMulArgs&) const override { return 0; }
  int64_t AttentionForward(const AttentionShape&) const override { return 0; }
  int64_t AttentionBackward(const AttentionShape&) const override { return 0; }
  int64_t ColumnReduction(int64_t, int64_t) const override { return 0; }
  // What these optimizers' formulas keep is the same on all devices.
  int64_t Adafactor(int64_t rows, int64_t cols) const override { return optimizers_.Adafactor(rows, cols); }
  int64_t Muon(int64_t rows, int64_t cols) const override { return optimizers_.Muon(rows, cols); }

 private:
  CpuWorkspaceSizes optimizers_{1};
};

}  // namespace ftune
