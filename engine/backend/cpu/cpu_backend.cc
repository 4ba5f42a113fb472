#include "engine/backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>

#include "engine/backend/cpu/attention.h"
#include "engine/backend/cpu/cpu_workspace.h"
#include "engine/backend/cpu/cross_entropy.h"
#include "engine/backend/cpu/dequant_blocks.h"
#include "engine/backend/cpu/dropout.h"
#include "engine/backend/cpu/elementwise.h"
#include "engine/backend/cpu/embedding.h"
#include "engine/backend/cpu/glu.h"
#include "engine/backend/cpu/layer_norm.h"
#include "engine/backend/cpu/matmul.h"
#include "engine/backend/cpu/noise.h"
#include "engine/backend/cpu/norm.h"
#include "engine/backend/cpu/optimizers.h"
#include "engine/backend/cpu/reduce.h"
#include "engine/backend/cpu/rope.h"

namespace ftune {

CpuBackend::CpuBackend(const CpuOptions& options)
    : Backend(std::make_unique<CpuWorkspaceSizes>(std::max(1, options.threads))),
      pool_(std::max(1, options.threads)),
      allocator_(std::make_shared<cpu::CachingAllocator>()) {}

std::shared_ptr<Storage> CpuBackend::DoAllocate(int64_t bytes, Category category) {
  const cpu::CachingAllocator::Block block = allocator_->Allocate(bytes);
  return std::make_shared<Storage>(
      ledger(), category, bytes, block.data,
      [allocator = allocator_, block](std::byte*, int64_t requested) { allocator->Free(block, requested); });
}

void CpuBackend::DoUpload(Stream, std::span<const std::byte> from, const Tensor& to) {
  if (!from.empty()) std::memcpy(to.bytes(), from.data(), from.size());
}

void CpuBackend::DoDownload(Stream, const Tensor& from, std::span<std::byte> to) {
  if (!to.empty()) std::memcpy(to.data(), from.bytes(), to.size());
}

void CpuBackend::DoZero(Stream, const Tensor& x) { cpu::Zero(pool_, x); }

void CpuBackend::DoConvert(Stream, const Tensor& from, const Tensor& to) { cpu::Convert(pool_, from, to); }

void CpuBackend::DoQuantize(Stream, const Tensor& from, const Tensor& to, const Tensor& scales) {
  cpu::Quantize(pool_, from, to, scales);
}

void CpuBackend::DoAdd(Stream, const Tensor& x, const Tensor& y) { cpu::Add(pool_, x, y); }

void CpuBackend::DoScale(Stream, const Tensor& x, float factor) { cpu::Scale(pool_, x, factor); }

void CpuBackend::DoSoftCap(Stream, float cap, const Tensor& x) { cpu::SoftCap(pool_, cap, x); }

void CpuBackend::DoMatMul(Stream, const MatMulArgs& args, const Tensor& workspace) {
  cpu::MatMul(pool_, args, workspace);
}

void CpuBackend::DoAddBias(Stream, const Tensor& bias, const Tensor& y) { cpu::AddBias(pool_, bias, y); }

void CpuBackend::DoBiasBackward(Stream, const Tensor& dy, const Tensor& dbias, const Tensor& workspace) {
  cpu::BiasBackward(pool_, dy, dbias, workspace);
}

void CpuBackend::DoEmbeddingForward(Stream, const Tensor& ids, const Tensor& table, int64_t first_id,
                                    const Tensor& out) {
  cpu::EmbeddingForward(pool_, ids, table, first_id, out);
}

void CpuBackend::DoEmbeddingBackward(Stream, const Tensor& ids, const Tensor& dy, int64_t first_id,
                                     const Tensor& dtable) {
  cpu::EmbeddingBackward(pool_, ids, dy, first_id, dtable);
}

void CpuBackend::DoGatherRows(Stream, const Tensor& from, const Tensor& rows, const Tensor& to) {
  cpu::GatherRows(pool_, from, rows, to);
}

void CpuBackend::DoScatterRows(Stream, const Tensor& from, const Tensor& rows, const Tensor& to) {
  cpu::ScatterRows(pool_, from, rows, to);
}

void CpuBackend::DoRmsNormForward(Stream, const Tensor& x, const Tensor& w, const NormOptions& options,
                                  const Tensor& y, const Tensor& rstd) {
  cpu::RmsNormForward(pool_, x, w, options, y, rstd);
}

void CpuBackend::DoRmsNormBackwardInput(Stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                                        const NormOptions& options, const Tensor& rstd, bool accumulate,
                                        const Tensor& dx) {
  cpu::RmsNormBackwardInput(pool_, dy, x, w, options, rstd, accumulate, dx);
}

void CpuBackend::DoRmsNormBackwardWeight(Stream, const Tensor& dy, const Tensor& x,
                                         const NormOptions& options, const Tensor& rstd, const Tensor& dw,
                                         const Tensor& workspace) {
  cpu::RmsNormBackwardWeight(pool_, dy, x, options, rstd, dw, workspace);
}

void CpuBackend::DoLayerNormForward(Stream, const Tensor& x, const Tensor& w, const Tensor& b, float eps,
                                    const Tensor& y, const Tensor& stats) {
  cpu::LayerNormForward(pool_, x, w, b, eps, y, stats);
}

void CpuBackend::DoLayerNormBackwardInput(Stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                                          const Tensor& stats, const Tensor& dx) {
  cpu::LayerNormBackwardInput(pool_, dy, x, w, stats, dx);
}

void CpuBackend::DoLayerNormBackwardWeight(Stream, const Tensor& dy, const Tensor& x, const Tensor& stats,
                                           const Tensor& dw, const Tensor& db, const Tensor& workspace) {
  cpu::LayerNormBackwardWeight(pool_, dy, x, stats, dw, db, workspace);
}

void CpuBackend::DoRope(Stream, const Tensor& x, const Tensor& positions, const Tensor& table,
                        int64_t head_dim, bool inverse) {
  cpu::Rope(pool_, x, positions, table, head_dim, inverse);
}

void CpuBackend::DoAttentionForward(Stream, const AttentionForwardArgs& args, const Tensor& workspace) {
  cpu::AttentionForward(pool_, args, workspace);
}

void CpuBackend::DoAttentionBackward(Stream, const AttentionBackwardArgs& args, const Tensor& workspace) {
  cpu::AttentionBackward(pool_, args, workspace);
}

void CpuBackend::DoGluForward(Stream, Activation activation, const Tensor& gate, const Tensor& up,
                              const Tensor& out) {
  cpu::GluForward(pool_, activation, gate, up, out);
}

void CpuBackend::DoGluBackward(Stream, Activation activation, const Tensor& dout, const Tensor& gate,
                               const Tensor& up, const Tensor& dgate, const Tensor& dup, const Tensor& out) {
  cpu::GluBackward(pool_, activation, dout, gate, up, dgate, dup, out);
}

void CpuBackend::DoActivationForward(Stream, Activation activation, const Tensor& x, const Tensor& out) {
  cpu::ActivationForward(pool_, activation, x, out);
}

void CpuBackend::DoActivationBackward(Stream, Activation activation, const Tensor& dout, const Tensor& x,
                                      const Tensor& dx, const Tensor& out) {
  cpu::ActivationBackward(pool_, activation, dout, x, dx, out);
}

void CpuBackend::DoDropout(Stream, const Tensor& x, const DropoutArgs& args, bool accumulate,
                           const Tensor& y) {
  cpu::Dropout(pool_, x, args, accumulate, y);
}

void CpuBackend::DoUniformNoise(Stream, const NoiseArgs& args, const Tensor& x) {
  cpu::UniformNoise(pool_, args, x);
}

void CpuBackend::DoCrossEntropy(Stream, const CrossEntropyArgs& args) { cpu::CrossEntropy(pool_, args); }

void CpuBackend::DoCrossEntropyMax(Stream, const CrossEntropySliceArgs& args) {
  cpu::CrossEntropyMax(pool_, args);
}

void CpuBackend::DoCrossEntropySums(Stream, const CrossEntropySliceArgs& args) {
  cpu::CrossEntropySums(pool_, args);
}

void CpuBackend::DoCrossEntropyLoss(Stream, const CrossEntropySliceArgs& args) {
  cpu::CrossEntropyLoss(pool_, args);
}

void CpuBackend::DoRowNorms(Stream, const Tensor& x, const Tensor& norms) { cpu::RowNorms(pool_, x, norms); }

void CpuBackend::DoColumnScale(Stream, const Tensor& factor, const Tensor& x, const Tensor& y) {
  cpu::ColumnScale(pool_, factor, x, y);
}

void CpuBackend::DoDivide(Stream, const Tensor& x, const Tensor& y, const Tensor& out) {
  cpu::Divide(pool_, x, y, out);
}

void CpuBackend::DoColumnDot(Stream, const Tensor& a, const Tensor& b, const Tensor& out,
                             const Tensor& workspace) {
  cpu::ColumnDot(pool_, a, b, out, workspace);
}

void CpuBackend::DoSumSquares(Stream, const Tensor& x, const Tensor& sum, const Tensor& workspace) {
  cpu::SumSquares(pool_, x, sum, workspace);
}

void CpuBackend::DoClipScale(Stream, const Tensor& sum, double loss_scale, float max_norm,
                             const Tensor& scale) {
  cpu::ClipScale(sum, loss_scale, max_norm, scale);
}

void CpuBackend::DoAdamW(Stream, const AdamWArgs& args) { cpu::AdamW(pool_, args); }

void CpuBackend::DoAdamW8bit(Stream, const AdamW8bitArgs& args) { cpu::AdamW8bit(pool_, args); }

void CpuBackend::DoSgd(Stream, const SgdArgs& args) { cpu::Sgd(pool_, args); }

void CpuBackend::DoLion(Stream, const LionArgs& args) { cpu::Lion(pool_, args); }

void CpuBackend::DoAdafactor(Stream, const AdafactorArgs& args, const Tensor& workspace) {
  cpu::Adafactor(pool_, args, workspace);
}

void CpuBackend::DoMuon(Stream, const MuonArgs& args, const Tensor& workspace) {
  cpu::Muon(pool_, args, workspace);
}

}  // namespace ftune
