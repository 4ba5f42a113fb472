// The backend that computes on the CPU. Results do not depend on the number of threads: what is summed is cut
// by shape alone and added in a fixed order.
#pragma once

#include <memory>

#include "engine/backend/backend.h"
#include "engine/backend/cpu/caching_allocator.h"
#include "engine/backend/cpu/parallel.h"

namespace ftune {

struct CpuOptions {
  int threads = 1;  // that compute, the caller's included
};

// Used by one thread at a time. Work is done when a call returns: the stream is not looked at.
class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options);

  bool computes() const override { return true; }
  void Synchronize(Stream) override {}

 protected:
  std::shared_ptr<Storage> DoAllocate(int64_t bytes, Category category) override;
  void DoUpload(Stream, std::span<const std::byte> from, const Tensor& to) override;
  void DoDownload(Stream, const Tensor& from, std::span<std::byte> to) override;
  void DoZero(Stream, const Tensor& x) override;
  void DoConvert(Stream, const Tensor& from, const Tensor& to) override;
  void DoQuantize(Stream, const Tensor& from, const Tensor& to, const Tensor& scales) override;
  void DoAdd(Stream, const Tensor& x, const Tensor& y) override;
  void DoScale(Stream, const Tensor& x, float factor) override;
  void DoSoftCap(Stream, float cap, const Tensor& x) override;
  void DoMatMul(Stream, const MatMulArgs& args, const Tensor& workspace) override;
  void DoAddBias(Stream, const Tensor& bias, const Tensor& y) override;
  void DoBiasBackward(Stream, const Tensor& dy, const Tensor& dbias, const Tensor& workspace) override;
  void DoEmbeddingForward(Stream, const Tensor& ids, const Tensor& table, int64_t first_id,
                          const Tensor& out) override;
  void DoEmbeddingBackward(Stream, const Tensor& ids, const Tensor& dy, int64_t first_id,
                           const Tensor& dtable) override;
  void DoGatherRows(Stream, const Tensor& from, const Tensor& rows, const Tensor& to) override;
  void DoScatterRows(Stream, const Tensor& from, const Tensor& rows, const Tensor& to) override;
  void DoRmsNormForward(Stream, const Tensor& x, const Tensor& w, const NormOptions& options, const Tensor& y,
                        const Tensor& rstd) override;
  void DoRmsNormBackwardInput(Stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                              const NormOptions& options, const Tensor& rstd, bool accumulate,
                              const Tensor& dx) override;
  void DoRmsNormBackwardWeight(Stream, const Tensor& dy, const Tensor& x, const NormOptions& options,
                               const Tensor& rstd, const Tensor& dw, const Tensor& workspace) override;
  void DoLayerNormForward(Stream, const Tensor& x, const Tensor& w, const Tensor& b, float eps,
                          const Tensor& y, const Tensor& stats) override;
  void DoLayerNormBackwardInput(Stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                                const Tensor& stats, const Tensor& dx) override;
  void DoLayerNormBackwardWeight(Stream, const Tensor& dy, const Tensor& x, const Tensor& stats,
                                 const Tensor& dw, const Tensor& db, const Tensor& workspace) override;
  void DoRope(Stream, const Tensor& x, const Tensor& positions, const Tensor& table, int64_t head_dim,
              bool inverse) override;
  void DoAttentionForward(Stream, const AttentionForwardArgs& args, const Tensor& workspace) override;
  void DoAttentionBackward(Stream, const AttentionBackwardArgs& args, const Tensor& workspace) override;
  void DoGluForward(Stream, Activation activation, const Tensor& gate, const Tensor& up,
                    const Tensor& out) override;
  void DoGluBackward(Stream, Activation activation, const Tensor& dout, const Tensor& gate, const Tensor& up,
                     const Tensor& dgate, const Tensor& dup, const Tensor& out) override;
  void DoActivationForward(Stream, Activation activation, const Tensor& x, const Tensor& out) override;
  void DoActivationBackward(Stream, Activation activation, const Tensor& dout, const Tensor& x,
                            const Tensor& dx, const Tensor& out) override;
  void DoDropout(Stream, const Tensor& x, const DropoutArgs& args, bool accumulate, const Tensor& y) override;
  void DoUniformNoise(Stream, const NoiseArgs& args, const Tensor& x) override;
  void DoCrossEntropy(Stream, const CrossEntropyArgs& args) override;
  void DoCrossEntropyMax(Stream, const CrossEntropySliceArgs& args) override;
  void DoCrossEntropySums(Stream, const CrossEntropySliceArgs& args) override;
  void DoCrossEntropyLoss(Stream, const CrossEntropySliceArgs& args) override;
  void DoRowNorms(Stream, const Tensor& x, const Tensor& norms) override;
  void DoColumnScale(Stream, const Tensor& factor, const Tensor& x, const Tensor& y) override;
  void DoDivide(Stream, const Tensor& x, const Tensor& y, const Tensor& out) override;
  void DoColumnDot(Stream, const Tensor& a, const Tensor& b, const Tensor& out,
                   const Tensor& workspace) override;
  void DoSumSquares(Stream, const Tensor& x, const Tensor& sum, const Tensor& workspace) override;
  void DoClipScale(Stream, const Tensor& sum, double loss_scale, float max_norm,
                   const Tensor& scale) override;
  void DoAdamW(Stream, const AdamWArgs& args) override;
  void DoAdamW8bit(Stream, const AdamW8bitArgs& args) override;
  void DoSgd(Stream, const SgdArgs& args) override;
  void DoLion(Stream, const LionArgs& args) override;
  void DoAdafactor(Stream, const AdafactorArgs& args, const Tensor& workspace) override;
  void DoMuon(Stream, const MuonArgs& args, const Tensor& workspace) override;

 private:
  cpu::ThreadPool pool_;
  // Shared with the storages: scratch memory of the base class outlives this object's members.
  std::shared_ptr<cpu::CachingAllocator> allocator_;
};

}  // namespace ftune
