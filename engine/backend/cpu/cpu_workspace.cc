#include "engine/backend/cpu/cpu_workspace.h"

#include "engine/backend/cpu/attention_plan.h"
#include "engine/backend/cpu/matmul.h"
#include "engine/backend/cpu/optimizers.h"
#include "engine/backend/cpu/reduce.h"

namespace ftune {

int64_t CpuWorkspaceSizes::MatMul(const MatMulArgs& args) const {
  return cpu::MatMulWorkspaceBytes(args, threads_);
}

int64_t CpuWorkspaceSizes::AttentionForward(const AttentionShape& shape) const {
  return threads_ * cpu::ForwardScratchFloats(shape) * static_cast<int64_t>(sizeof(float));
}

int64_t CpuWorkspaceSizes::AttentionBackward(const AttentionShape& shape) const {
  return threads_ * cpu::BackwardScratchFloats(shape) * static_cast<int64_t>(sizeof(float));
}

int64_t CpuWorkspaceSizes::ColumnReduction(int64_t rows, int64_t cols) const {
  return cpu::ColumnReductionBytes(rows, cols);
}

int64_t CpuWorkspaceSizes::Adafactor(int64_t rows, int64_t cols) const {
  return cpu::AdafactorWorkspaceBytes(rows, cols);
}

int64_t CpuWorkspaceSizes::Muon(int64_t rows, int64_t cols) const {
  return cpu::MuonWorkspaceBytes(rows, cols, threads_);
}

}  // namespace ftune
