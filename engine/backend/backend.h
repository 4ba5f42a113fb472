// What the engine asks of a device. Public methods check shapes, count work and provide scratch memory; the
// device implements the Do… half. `cpu` computes, `meta` only counts: both run the same code up to here, so a
// plan's ledger is the engine's, to the byte.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include "base/stream.h"
#include "engine/backend/op_work.h"
#include "engine/backend/ops.h"
#include "engine/backend/workspace.h"
#include "engine/tensor/ledger.h"
#include "engine/tensor/tensor.h"

namespace ftune {

// Floating-point operations asked of the backend, a multiply-add counting two; attention counts the pairs
// that the causal mask, segments and window leave. Element-wise work is not counted.
struct WorkCounter {
  double useful_flops = 0;
  double recomputed_flops = 0;  // inside a RecomputeScope
};

class Backend {
 public:
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  Ledger& ledger() { return ledger_; }
  const WorkCounter& work() const { return work_; }
  // Who hears of all ops; null: nobody. Outlives them.
  void set_op_listener(OpListener* listener) { op_listener_ = listener; }
  // Asked where nothing is computed. Outlives what is kept on disk.
  void set_disk_listener(DiskListener* listener) { disk_listener_ = listener; }
  DiskListener* disk_listener() const { return disk_listener_; }
  // False on meta: tensors have no bytes and results must not be looked at.
  virtual bool computes() const = 0;

  // Memory. Uninitialised.
  Tensor Allocate(DType dtype, int64_t rows, int64_t cols, Category category);
  Tensor Allocate(int64_t rows, int64_t cols, Category category) {
    return Allocate(category == Category::kActivations ? activations_ : DType::kF32, rows, cols, category);
  }
  // `bytes` of memory from elsewhere, which it keeps, as [1, bytes] u8. On meta `data` is null.
  Tensor Adopt(std::shared_ptr<std::byte> data, int64_t bytes, Category category);
  // Host to device and back; contiguous tensors, sizes in bytes equal. On meta, Download leaves `to` as it
  // is.
  void Upload(Stream stream, std::span<const std::byte> from, const Tensor& to);
  void Download(Stream stream, const Tensor& from, std::span<std::byte> to);
  virtual void Synchronize(Stream stream) = 0;

  void Zero(Stream stream, const Tensor& x);
  // to = from, converted (f32, bf16, f16 in any direction; quantised to these).
  void Convert(Stream stream, const Tensor& from, const Tensor& to);
  // Quantises f32 `from`, contiguous, into `to`, all of a tensor of a type that is quantised as a whole.
  // scales, f32, one a block, is left with their scales: NaN where a value was not finite.
  void Quantize(Stream stream, const Tensor& from, const Tensor& to, const Tensor& scales);
  // y += x
  void Add(Stream stream, const Tensor& x, const Tensor& y);
  // x *= factor
  void Scale(Stream stream, const Tensor& x, float factor);
  // x = cap * tanh(x / cap); cap > 0.
  void SoftCap(Stream stream, float cap, const Tensor& x);

  void MatMul(Stream stream, const MatMulArgs& args);
  // y[t] += bias, bias [1, cols] f32, bf16 or f16.
  void AddBias(Stream stream, const Tensor& bias, const Tensor& y);
  // dbias += Σ_t dy[t]
  void BiasBackward(Stream stream, const Tensor& dy, const Tensor& dbias);

  // out[t] = table[ids[t] - first_id], or zeros where the table, of some rows of a larger one, does not have
  // that; ids [1, t] i32; table any float type.
  void EmbeddingForward(Stream stream, const Tensor& ids, const Tensor& table, int64_t first_id,
                        const Tensor& out);
  // dtable[ids[t] - first_id] += dy[t], where it has that row, in order of t.
  void EmbeddingBackward(Stream stream, const Tensor& ids, const Tensor& dy, int64_t first_id,
                         const Tensor& dtable);
  // to[i] = from[rows[i]] / to[rows[i]] = from[i]; rows [1, n] i32.
  void GatherRows(Stream stream, const Tensor& from, const Tensor& rows, const Tensor& to);
  void ScatterRows(Stream stream, const Tensor& from, const Tensor& rows, const Tensor& to);

  // Each group of a row: y = x / rms(x) * scale, rms(x) = sqrt(mean(x²) + eps); rstd [t, groups] = 1 / rms(x)
  // (Zhang & Sennrich 2019). w is [1, cols / groups], f32, bf16 or f16; the scale is w or 1 + w. y may be x.
  void RmsNormForward(Stream stream, const Tensor& x, const Tensor& w, const NormOptions& options,
                      const Tensor& y, const Tensor& rstd);
  // dx = the gradient with respect to x (dx may be dy or x), or dx += … with accumulate.
  void RmsNormBackwardInput(Stream stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                            const NormOptions& options, const Tensor& rstd, bool accumulate,
                            const Tensor& dx);
  // dw [1, cols / groups] += Σ dy * x * rstd over rows and groups.
  void RmsNormBackwardWeight(Stream stream, const Tensor& dy, const Tensor& x, const NormOptions& options,
                             const Tensor& rstd, const Tensor& dw);

  // y = (x - mean(x)) / sqrt(var(x) + eps) * w + b (Ba et al., "Layer normalization", 2016); stats [t, 2] =
  // mean and 1 / sqrt(var + eps). w and b are [1, cols], f32, bf16 or f16. y may be x.
  void LayerNormForward(Stream stream, const Tensor& x, const Tensor& w, const Tensor& b, float eps,
                        const Tensor& y, const Tensor& stats);
  // dx += the gradient with respect to x.
  void LayerNormBackwardInput(Stream stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                              const Tensor& stats, const Tensor& dx);
  // dw [1, cols] += Σ_t dy[t] * (x[t] - mean[t]) * rstd[t], db [1, cols] += Σ_t dy[t]; either may be
  // undefined.
  void LayerNormBackwardWeight(Stream stream, const Tensor& dy, const Tensor& x, const Tensor& stats,
                               const Tensor& dw, const Tensor& db);

  // Rotates pairs (i, i + r / 2) of the first r elements of each head of x [t, heads * head_dim] in place by
  // the angle of the token's position; the head's other elements stay. table [positions, r], r <= head_dim
  // and even, holds r / 2 cosines, then as many sines; both may carry a factor. `inverse` multiplies by the
  // transpose (the gradient): it rotates back. Su et al., "RoFormer" (2021), in Hugging Face's half-split
  // layout.
  void Rope(Stream stream, const Tensor& x, const Tensor& positions, const Tensor& table, int64_t head_dim,
            bool inverse);

  // Softmax(scores + mask) v, scores = scale * q kᵀ or their soft cap, tiled (Dao et al., "FlashAttention",
  // 2022): no score matrix is stored.
  void AttentionForward(Stream stream, const AttentionForwardArgs& args);
  void AttentionBackward(Stream stream, const AttentionBackwardArgs& args);

  // out = f(gate) * up (Shazeer, "GLU variants improve transformer", 2020); backward overwrites dgate and dup
  // (which may be gate and up themselves) and, where `out` is defined, also gives f(gate) * up again.
  void GluForward(Stream stream, Activation activation, const Tensor& gate, const Tensor& up,
                  const Tensor& out);
  void GluBackward(Stream stream, Activation activation, const Tensor& dout, const Tensor& gate,
                   const Tensor& up, const Tensor& dgate, const Tensor& dup, const Tensor& out);
  // out = f(x), which may be x; backward overwrites dx (which may be x or dout) and, where `out` is defined,
  // also gives f(x) again.
  void ActivationForward(Stream stream, Activation activation, const Tensor& x, const Tensor& out);
  void ActivationBackward(Stream stream, Activation activation, const Tensor& dout, const Tensor& x,
                          const Tensor& dx, const Tensor& out);

  // y = x * keep / (1 - p), or y += … with accumulate. The draw of an element depends on its coordinates
  // only.
  void Dropout(Stream stream, const Tensor& x, const DropoutArgs& args, bool accumulate, const Tensor& y);

  // x[t] += amplitudes[t] * u, u uniform in [-1, 1): a draw depends on its coordinates only, as dropout's
  // does (Jain et al., "NEFTune", 2023).
  void UniformNoise(Stream stream, const NoiseArgs& args, const Tensor& x);

  void CrossEntropy(Stream stream, const CrossEntropyArgs& args);
  // The same in steps, of logits of which each rank has some columns. Between them the caller takes the
  // greatest of all ranks' `max`, then the sum of their `sums`.
  void CrossEntropyMax(Stream stream, const CrossEntropySliceArgs& args);
  void CrossEntropySums(Stream stream, const CrossEntropySliceArgs& args);
  void CrossEntropyLoss(Stream stream, const CrossEntropySliceArgs& args);

  // norms [1, rows] = sqrt(Σ_j x[i][j]²); f32.
  void RowNorms(Stream stream, const Tensor& x, const Tensor& norms);
  // y[t][j] = x[t][j] * factor[j]; factor [1, cols] f32; y may be x.
  void ColumnScale(Stream stream, const Tensor& factor, const Tensor& x, const Tensor& y);
  // out = x / y by element, 0 where y is 0; f32, of one shape. out may be x or y.
  void Divide(Stream stream, const Tensor& x, const Tensor& y, const Tensor& out);
  // out [1, cols] += Σ_t a[t][j] * b[t][j], in a fixed order.
  void ColumnDot(Stream stream, const Tensor& a, const Tensor& b, const Tensor& out);

  // sum [1, 1] f64 += Σ x², in a fixed order.
  void SumSquares(Stream stream, const Tensor& x, const Tensor& sum);
  // scale [1, 1] f32 = what brings gradients that were scaled by loss_scale, with squares that add up to
  // `sum`, back to their own size and their norm under max_norm: norm = sqrt(sum) / loss_scale,
  // scale = min(1, max_norm / (norm + 1e-6)) / loss_scale, as torch.nn.utils.clip_grad_norm_.
  void ClipScale(Stream stream, const Tensor& sum, double loss_scale, float max_norm, const Tensor& scale);

  // Optimizers (optimizer_ops.h).
  void AdamW(Stream stream, const AdamWArgs& args);
  void AdamW8bit(Stream stream, const AdamW8bitArgs& args);
  void Sgd(Stream stream, const SgdArgs& args);
  void Lion(Stream stream, const LionArgs& args);
  void Adafactor(Stream stream, const AdafactorArgs& args);
  void Muon(Stream stream, const MuonArgs& args);

  const WorkspaceSizes& sizes() const { return *sizes_; }

 protected:
  // `activations`: their type on the device.
  explicit Backend(std::unique_ptr<const WorkspaceSizes> sizes, DType activations = DType::kF32)
      : sizes_(std::move(sizes)), activations_(activations) {}

  virtual std::shared_ptr<Storage> DoAllocate(int64_t bytes, Category category) = 0;
  virtual void DoUpload(Stream, std::span<const std::byte> from, const Tensor& to) = 0;
  virtual void DoDownload(Stream, const Tensor& from, std::span<std::byte> to) = 0;
  virtual void DoZero(Stream, const Tensor& x) = 0;
  virtual void DoConvert(Stream, const Tensor& from, const Tensor& to) = 0;
  virtual void DoQuantize(Stream, const Tensor& from, const Tensor& to, const Tensor& scales) = 0;
  virtual void DoAdd(Stream, const Tensor& x, const Tensor& y) = 0;
  virtual void DoScale(Stream, const Tensor& x, float factor) = 0;
  virtual void DoSoftCap(Stream, float cap, const Tensor& x) = 0;
  virtual void DoMatMul(Stream, const MatMulArgs& args, const Tensor& workspace) = 0;
  virtual void DoAddBias(Stream, const Tensor& bias, const Tensor& y) = 0;
  virtual void DoBiasBackward(Stream, const Tensor& dy, const Tensor& dbias, const Tensor& workspace) = 0;
  virtual void DoEmbeddingForward(Stream, const Tensor& ids, const Tensor& table, int64_t first_id,
                                  const Tensor& out) = 0;
  virtual void DoEmbeddingBackward(Stream, const Tensor& ids, const Tensor& dy, int64_t first_id,
                                   const Tensor& dtable) = 0;
  virtual void DoGatherRows(Stream, const Tensor& from, const Tensor& rows, const Tensor& to) = 0;
  virtual void DoScatterRows(Stream, const Tensor& from, const Tensor& rows, const Tensor& to) = 0;
  virtual void DoRmsNormForward(Stream, const Tensor& x, const Tensor& w, const NormOptions& options,
                                const Tensor& y, const Tensor& rstd) = 0;
  virtual void DoRmsNormBackwardInput(Stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                                      const NormOptions& options, const Tensor& rstd, bool accumulate,
                                      const Tensor& dx) = 0;
  virtual void DoRmsNormBackwardWeight(Stream, const Tensor& dy, const Tensor& x, const NormOptions& options,
                                       const Tensor& rstd, const Tensor& dw, const Tensor& workspace) = 0;
  virtual void DoLayerNormForward(Stream, const Tensor& x, const Tensor& w, const Tensor& b, float eps,
                                  const Tensor& y, const Tensor& stats) = 0;
  virtual void DoLayerNormBackwardInput(Stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                                        const Tensor& stats, const Tensor& dx) = 0;
  virtual void DoLayerNormBackwardWeight(Stream, const Tensor& dy, const Tensor& x, const Tensor& stats,
                                         const Tensor& dw, const Tensor& db, const Tensor& workspace) = 0;
  virtual void DoRope(Stream, const Tensor& x, const Tensor& positions, const Tensor& table, int64_t head_dim,
                      bool inverse) = 0;
  virtual void DoAttentionForward(Stream, const AttentionForwardArgs& args, const Tensor& workspace) = 0;
  virtual void DoAttentionBackward(Stream, const AttentionBackwardArgs& args, const Tensor& workspace) = 0;
  virtual void DoGluForward(Stream, Activation activation, const Tensor& gate, const Tensor& up,
                            const Tensor& out) = 0;
  virtual void DoGluBackward(Stream, Activation activation, const Tensor& dout, const Tensor& gate,
                             const Tensor& up, const Tensor& dgate, const Tensor& dup, const Tensor& out) = 0;
  virtual void DoActivationForward(Stream, Activation activation, const Tensor& x, const Tensor& out) = 0;
  virtual void DoActivationBackward(Stream, Activation activation, const Tensor& dout, const Tensor& x,
                                    const Tensor& dx, const Tensor& out) = 0;
  virtual void DoDropout(Stream, const Tensor& x, const DropoutArgs& args, bool accumulate,
                         const Tensor& y) = 0;
  virtual void DoUniformNoise(Stream, const NoiseArgs& args, const Tensor& x) = 0;
  virtual void DoCrossEntropy(Stream, const CrossEntropyArgs& args) = 0;
  virtual void DoCrossEntropyMax(Stream, const CrossEntropySliceArgs& args) = 0;
  virtual void DoCrossEntropySums(Stream, const CrossEntropySliceArgs& args) = 0;
  virtual void DoCrossEntropyLoss(Stream, const CrossEntropySliceArgs& args) = 0;
  virtual void DoRowNorms(Stream, const Tensor& x, const Tensor& norms) = 0;
  virtual void DoColumnScale(Stream, const Tensor& factor, const Tensor& x, const Tensor& y) = 0;
  virtual void DoDivide(Stream, const Tensor& x, const Tensor& y, const Tensor& out) = 0;
  virtual void DoColumnDot(Stream, const Tensor& a, const Tensor& b, const Tensor& out,
                           const Tensor& workspace) = 0;
  virtual void DoSumSquares(Stream, const Tensor& x, const Tensor& sum, const Tensor& workspace) = 0;
  virtual void DoClipScale(Stream, const Tensor& sum, double loss_scale, float max_norm,
                           const Tensor& scale) = 0;
  virtual void DoAdamW(Stream, const AdamWArgs& args) = 0;
  virtual void DoAdamW8bit(Stream, const AdamW8bitArgs& args) = 0;
  virtual void DoSgd(Stream, const SgdArgs& args) = 0;
  virtual void DoLion(Stream, const LionArgs& args) = 0;
  virtual void DoAdafactor(Stream, const AdafactorArgs& args, const Tensor& workspace) = 0;
  virtual void DoMuon(Stream, const MuonArgs& args, const Tensor& workspace) = 0;

 private:
  friend class RecomputeScope;
  // Scratch of at least `bytes`, valid until the next call; kept and grown as needed.
  Tensor Scratch(int64_t bytes);
  void Count(double flops);
  // Tells the listener of an op on these tensors, of which some may be undefined.
  void Tell(OpClass op, std::span<const Tensor* const> tensors, double flops = 0.0, DType dtype = DType::kF32,
            int64_t smallest = 0);
  void Tell(OpClass op, std::initializer_list<const Tensor*> tensors, double flops = 0.0,
            DType dtype = DType::kF32, int64_t smallest = 0) {
    Tell(op, std::span(tensors.begin(), tensors.size()), flops, dtype, smallest);
  }
  void TellProduct(const MatMulArgs& args, double flops);
  void TellUpdate(const UpdateArgs& update, std::initializer_list<const Tensor*> states);

  std::unique_ptr<const WorkspaceSizes> sizes_;
  DType activations_;
  Ledger ledger_;  // before the storages that report to it
  Tensor scratch_;
  WorkCounter work_;
  bool recomputing_ = false;
  OpListener* op_listener_ = nullptr;
  DiskListener* disk_listener_ = nullptr;
};

// Work done while one lives is counted as recomputation.
class RecomputeScope {
 public:
  explicit RecomputeScope(Backend& backend) : backend_(backend), before_(backend.recomputing_) {
    backend_.recomputing_ = true;
  }
  ~RecomputeScope() { backend_.recomputing_ = before_; }
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;

 private:
  Backend& backend_;
  bool before_;
};

// Pairs (query, key) that the causal mask and the window leave.
double AttentionPairs(const std::vector<AttentionSegment>& segments, int64_t window);

}  // namespace ftune
