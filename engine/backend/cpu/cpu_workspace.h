// Scratch memory of the CPU backend's ops; the meta backend that stands for a CPU uses the same object.
#pragma once

#include "engine/backend/workspace.h"

namespace ftune {

class CpuWorkspaceSizes final : public WorkspaceSizes {
 public:
  explicit CpuWorkspaceSizes(int threads) : threads_(threads) {}

  int64_t Scores() const override { return int64_t{32} << 20; }
  int64_t MatMul(const MatMulArgs& args) const override;
  int64_t AttentionForward(const AttentionShape& shape) const override;
  int64_t AttentionBackward(const AttentionShape& shape) const override;
  int64_t ColumnReduction(int64_t rows, int64_t cols) const override;
  int64_t Adafactor(int64_t rows, int64_t cols) const override;
  int64_t Muon(int64_t rows, int64_t cols) const override;

 private:
  int threads_;
};

}  // namespace ftune
