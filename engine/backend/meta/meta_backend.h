// The counting backend: runs the engine's code without memory or arithmetic. Its ledger and its work counter
// are those of the device that its WorkspaceSizes describe.
#pragma once

#include <memory>

#include "engine/backend/backend.h"

namespace ftune {

class MetaBackend final : public Backend {
 public:
  explicit MetaBackend(std::unique_ptr<const WorkspaceSizes> sizes, DType activations = DType::kF32)
      : Backend(std::move(sizes), activations) {}

  bool computes() const override { return false; }
  void Synchronize(Stream) override {}

 protected:
  std::shared_ptr<Storage> DoAllocate(int64_t bytes, Category category) override {
    return std::make_shared<Storage>(ledger(), category, bytes, nullptr, nullptr);
  }
  void DoUpload(Stream, std::span<const std::byte>, const Tensor&) override {}
  void DoDownload(Stream, const Tensor&, std::span<std::byte>) override {}
  void DoZero(Stream, const Tensor&) override {}
  void DoConvert(Stream, const Tensor&, const Tensor&) override {}
  void DoQuantize(Stream, const Tensor&, const Tensor&, const Tensor&) override {}
  void DoAdd(Stream, const Tensor&, const Tensor&) override {}
  void DoScale(Stream, const Tensor&, float) override {}
  void DoSoftCap(Stream, float, const Tensor&) override {}
  void DoMatMul(Stream, const MatMulArgs&, const Tensor&) override {}
  void DoAddBias(Stream, const Tensor&, const Tensor&) override {}
  void DoBiasBackward(Stream, const Tensor&, const Tensor&, const Tensor&) override {}
  void DoEmbeddingForward(Stream, const Tensor&, const Tensor&, int64_t, const Tensor&) override {}
  void DoEmbeddingBackward(Stream, const Tensor&, const Tensor&, int64_t, const Tensor&) override {}
  void DoGatherRows(Stream, const Tensor&, const Tensor&, const Tensor&) override {}
  void DoScatterRows(Stream, const Tensor&, const Tensor&, const Tensor&) override {}
  void DoRmsNormForward(Stream, const Tensor&, const Tensor&, const NormOptions&, const Tensor&,
                        const Tensor&) override {}
  void DoRmsNormBackwardInput(Stream, const Tensor&, const Tensor&, const Tensor&, const NormOptions&,
                              const Tensor&, bool, const Tensor&) override {}
  void DoRmsNormBackwardWeight(Stream, const Tensor&, const Tensor&, const NormOptions&, const Tensor&,
                               const Tensor&, const Tensor&) override {}
  void DoLayerNormForward(Stream, const Tensor&, const Tensor&, const Tensor&, float, const Tensor&,
                          const Tensor&) override {}
  void DoLayerNormBackwardInput(Stream, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                const Tensor&) override {}
  void DoLayerNormBackwardWeight(Stream, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                 const Tensor&, const Tensor&) override {}
  void DoRope(Stream, const Tensor&, const Tensor&, const Tensor&, int64_t, bool) override {}
  void DoAttentionForward(Stream, const AttentionForwardArgs&, const Tensor&) override {}
  void DoAttentionBackward(Stream, const AttentionBackwardArgs&, const Tensor&) override {}
  void DoGluForward(Stream, Activation, const Tensor&, const Tensor&, const Tensor&) override {}
  void DoGluBackward(Stream, Activation, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                     const Tensor&, const Tensor&) override {}
  void DoActivationForward(Stream, Activation, const Tensor&, const Tensor&) override {}
  void DoActivationBackward(Stream, Activation, const Tensor&, const Tensor&, const Tensor&,
                            const Tensor&) override {}
  void DoDropout(Stream, const Tensor&, const DropoutArgs&, bool, const Tensor&) override {}
  void DoUniformNoise(Stream, const NoiseArgs&, const Tensor&) override {}
  void DoCrossEntropy(Stream, const CrossEntropyArgs&) override {}
  void DoCrossEntropyMax(Stream, const CrossEntropySliceArgs&) override {}
  void DoCrossEntropySums(Stream, const CrossEntropySliceArgs&) override {}
  void DoCrossEntropyLoss(Stream, const CrossEntropySliceArgs&) override {}
  void DoRowNorms(Stream, const Tensor&, const Tensor&) override {}
  void DoColumnScale(Stream, const Tensor&, const Tensor&, const Tensor&) override {}
  void DoDivide(Stream, const Tensor&, const Tensor&, const Tensor&) override {}
  void DoColumnDot(Stream, const Tensor&, const Tensor&, const Tensor&, const Tensor&) override {}
  void DoSumSquares(Stream, const Tensor&, const Tensor&, const Tensor&) override {}
  void DoClipScale(Stream, const Tensor&, double, float, const Tensor&) override {}
  void DoAdamW(Stream, const AdamWArgs&) override {}
  void DoAdamW8bit(Stream, const AdamW8bitArgs&) override {}
  void DoSgd(Stream, const SgdArgs&) override {}
  void DoLion(Stream, const LionArgs&) override {}
  void DoAdafactor(Stream, const AdafactorArgs&, const Tensor&) override {}
  void DoMuon(Stream, const MuonArgs&, const Tensor&) override {}
};

}  // namespace ftune
