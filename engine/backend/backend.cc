#include "engine/backend/backend.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/block_quant.h"

namespace ftune {
namespace {

void CheckUpdate([[maybe_unused]] const UpdateArgs& update) {
  assert(update.gradients.size() == update.weights.size() && update.weights.contiguous());
  assert(!update.low.defined() || update.low.size() == update.weights.size());
  assert(update.weights.dtype() == DType::kF32 || update.weights.dtype() == DType::kBF16);
}

void CheckSlice([[maybe_unused]] const CrossEntropySliceArgs& args) {
  [[maybe_unused]] const int64_t rows = args.of.logits.rows();
  assert(args.of.labels.size() == rows && args.of.loss.dtype() == DType::kF64);
  assert(args.first_column + args.of.logits.cols() <= args.vocabulary);
  assert(args.max.size() == rows && args.max.dtype() == DType::kF32);
  assert(args.sums.rows() == 3 && args.sums.cols() == rows && args.sums.dtype() == DType::kF64);
}

}  // namespace

Tensor Backend::Allocate(DType dtype, int64_t rows, int64_t cols, Category category) {
  const int64_t bytes = AllocationBytes(BytesFor(dtype, rows * cols));
  return Tensor(DoAllocate(bytes, category), 0, dtype, rows, cols);
}

Tensor Backend::Adopt(std::shared_ptr<std::byte> data, int64_t bytes, Category category) {
  std::byte* const address = data.get();
  auto storage = std::make_shared<Storage>(ledger_, category, AllocationBytes(bytes), address,
                                           [data = std::move(data)](std::byte*, int64_t) {});
  return Tensor(std::move(storage), 0, DType::kU8, 1, bytes);
}

Tensor Backend::Scratch(int64_t bytes) {
  if (bytes == 0) return {};
  if (!scratch_.defined() || scratch_.size() < bytes) {
    scratch_ = Tensor();  // freed before the larger one is taken
    scratch_ = Allocate(DType::kU8, 1, bytes, Category::kBuffers);
  }
  return scratch_;
}

void Backend::Tell(OpClass op, std::span<const Tensor* const> tensors, double flops, DType dtype,
                   int64_t smallest) {
  if (op_listener_ == nullptr) return;
  OpWork work = {.op = op, .dtype = dtype, .flops = flops, .smallest = smallest, .recomputed = recomputing_};
  for (const Tensor* tensor : tensors) {
    if (tensor->defined()) work.bytes += static_cast<double>(BytesFor(tensor->dtype(), tensor->size()));
  }
  op_listener_->OnOp(work);
}

void Backend::TellProduct(const MatMulArgs& args, double flops) {
  const Tensor added = args.beta != 0.0f ? args.c : Tensor();
  Tell(OpClass::kProduct, {&args.a, &args.b, &args.c, &added}, flops, args.b.dtype(),
       std::min({args.m(), args.n(), args.k()}));
}

void Backend::TellUpdate(const UpdateArgs& update, std::initializer_list<const Tensor*> states) {
  // Weights and states are read and written.
  std::vector<const Tensor*> tensors = {&update.gradients, &update.low, &update.weights, &update.weights};
  for (const Tensor* state : states) tensors.insert(tensors.end(), 2, state);
  Tell(OpClass::kUpdate, tensors);
}

void Backend::Count(double flops) { (recomputing_ ? work_.recomputed_flops : work_.useful_flops) += flops; }

void Backend::Upload(Stream stream, std::span<const std::byte> from, const Tensor& to) {
  assert(to.contiguous() && static_cast<int64_t>(from.size()) == BytesFor(to.dtype(), to.size()));
  DoUpload(stream, from, to);
}

void Backend::Download(Stream stream, const Tensor& from, std::span<std::byte> to) {
  assert(from.contiguous() && static_cast<int64_t>(to.size()) == BytesFor(from.dtype(), from.size()));
  DoDownload(stream, from, to);
}

void Backend::Zero(Stream stream, const Tensor& x) {
  Tell(OpClass::kCopy, {&x});
  DoZero(stream, x);
}

void Backend::Convert(Stream stream, const Tensor& from, const Tensor& to) {
  assert(from.rows() == to.rows() && from.cols() == to.cols());
  Tell(OpClass::kCopy, {&from, &to});
  DoConvert(stream, from, to);
}

void Backend::Quantize(Stream stream, const Tensor& from, const Tensor& to, const Tensor& scales) {
  assert(from.dtype() == DType::kF32 && from.contiguous() && IsQuantizedWhole(to.dtype()));
  assert(from.size() == to.size() && to.first() == 0 && to.whole_size() == to.size());
  assert(scales.size() == BlockQuantLayout(to.dtype(), to.size()).blocks);
  Tell(OpClass::kCopy, {&from, &to, &scales});
  DoQuantize(stream, from, to, scales);
}

void Backend::Add(Stream stream, const Tensor& x, const Tensor& y) {
  assert(x.rows() == y.rows() && x.cols() == y.cols());
  Tell(OpClass::kCopy, {&x, &y, &y});
  DoAdd(stream, x, y);
}

void Backend::Scale(Stream stream, const Tensor& x, float factor) {
  Tell(OpClass::kCopy, {&x, &x});
  DoScale(stream, x, factor);
}

void Backend::SoftCap(Stream stream, float cap, const Tensor& x) {
  assert(cap > 0);
  Tell(OpClass::kGate, {&x, &x});
  DoSoftCap(stream, cap, x);
}

void Backend::MatMul(Stream stream, const MatMulArgs& args) {
  assert(args.c.rows() == args.m() && args.c.cols() == args.n());
  assert((args.trans_b ? args.b.cols() : args.b.rows()) == args.k());
  const double flops = 2.0 * args.m() * args.n() * args.k();
  Count(flops);
  TellProduct(args, flops);
  DoMatMul(stream, args, Scratch(sizes_->MatMul(args)));
}

void Backend::AddBias(Stream stream, const Tensor& bias, const Tensor& y) {
  assert(bias.size() == y.cols());
  Tell(OpClass::kCopy, {&bias, &y, &y});
  DoAddBias(stream, bias, y);
}

void Backend::BiasBackward(Stream stream, const Tensor& dy, const Tensor& dbias) {
  assert(dbias.size() == dy.cols());
  Tell(OpClass::kCopy, {&dy, &dbias});
  DoBiasBackward(stream, dy, dbias, Scratch(sizes_->ColumnReduction(dy.rows(), dy.cols())));
}

void Backend::EmbeddingForward(Stream stream, const Tensor& ids, const Tensor& table, int64_t first_id,
                               const Tensor& out) {
  assert(ids.size() == out.rows() && table.cols() == out.cols());
  Tell(OpClass::kEmbedding, {&out, &out});
  DoEmbeddingForward(stream, ids, table, first_id, out);
}

void Backend::EmbeddingBackward(Stream stream, const Tensor& ids, const Tensor& dy, int64_t first_id,
                                const Tensor& dtable) {
  assert(ids.size() == dy.rows() && dtable.cols() == dy.cols());
  Tell(OpClass::kEmbedding, {&dy, &dy, &dy});
  DoEmbeddingBackward(stream, ids, dy, first_id, dtable);
}

void Backend::GatherRows(Stream stream, const Tensor& from, const Tensor& rows, const Tensor& to) {
  assert(rows.size() == to.rows() && from.cols() == to.cols());
  Tell(OpClass::kCopy, {&to, &to});
  DoGatherRows(stream, from, rows, to);
}

void Backend::ScatterRows(Stream stream, const Tensor& from, const Tensor& rows, const Tensor& to) {
  assert(rows.size() == from.rows() && from.cols() == to.cols());
  Tell(OpClass::kCopy, {&from, &from});
  DoScatterRows(stream, from, rows, to);
}

void Backend::RmsNormForward(Stream stream, const Tensor& x, const Tensor& w, const NormOptions& options,
                             const Tensor& y, const Tensor& rstd) {
  assert(x.rows() == y.rows() && x.cols() == y.cols() && w.size() * options.groups == x.cols());
  assert(rstd.rows() == x.rows() && rstd.cols() == options.groups);
  Tell(OpClass::kNorm, {&x, &w, &y});
  DoRmsNormForward(stream, x, w, options, y, rstd);
}

void Backend::RmsNormBackwardInput(Stream stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                                   const NormOptions& options, const Tensor& rstd, bool accumulate,
                                   const Tensor& dx) {
  assert(dy.rows() == x.rows() && dx.rows() == x.rows() && dx.cols() == x.cols());
  assert(w.size() * options.groups == x.cols() && rstd.cols() == options.groups);
  const Tensor summed = accumulate ? dx : Tensor();
  Tell(OpClass::kNorm, {&dy, &x, &w, &dx, &summed});
  DoRmsNormBackwardInput(stream, dy, x, w, options, rstd, accumulate, dx);
}

void Backend::RmsNormBackwardWeight(Stream stream, const Tensor& dy, const Tensor& x,
                                    const NormOptions& options, const Tensor& rstd, const Tensor& dw) {
  assert(dy.rows() == x.rows() && dw.size() * options.groups == x.cols() && rstd.cols() == options.groups);
  Tell(OpClass::kNorm, {&dy, &x, &dw});
  DoRmsNormBackwardWeight(stream, dy, x, options, rstd, dw,
                          Scratch(sizes_->ColumnReduction(x.rows(), x.cols() / options.groups)));
}

void Backend::LayerNormForward(Stream stream, const Tensor& x, const Tensor& w, const Tensor& b, float eps,
                               const Tensor& y, const Tensor& stats) {
  assert(x.rows() == y.rows() && x.cols() == y.cols() && w.size() == x.cols() && b.size() == x.cols());
  assert(stats.rows() == x.rows() && stats.cols() == 2);
  Tell(OpClass::kNorm, {&x, &w, &b, &y});
  DoLayerNormForward(stream, x, w, b, eps, y, stats);
}

void Backend::LayerNormBackwardInput(Stream stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                                     const Tensor& stats, const Tensor& dx) {
  assert(dy.rows() == x.rows() && dx.rows() == x.rows() && dx.cols() == x.cols() && w.size() == x.cols());
  assert(stats.rows() == x.rows() && stats.cols() == 2);
  Tell(OpClass::kNorm, {&dy, &x, &w, &dx, &dx});
  DoLayerNormBackwardInput(stream, dy, x, w, stats, dx);
}

void Backend::LayerNormBackwardWeight(Stream stream, const Tensor& dy, const Tensor& x, const Tensor& stats,
                                      const Tensor& dw, const Tensor& db) {
  assert(dy.rows() == x.rows() && dy.cols() == x.cols() && stats.cols() == 2);
  assert((!dw.defined() || dw.size() == x.cols()) && (!db.defined() || db.size() == x.cols()));
  Tell(OpClass::kNorm, {&dy, &x, &dw, &db});
  DoLayerNormBackwardWeight(stream, dy, x, stats, dw, db,
                            Scratch(sizes_->ColumnReduction(x.rows(), x.cols())));
}

void Backend::Rope(Stream stream, const Tensor& x, const Tensor& positions, const Tensor& table,
                   int64_t head_dim, bool inverse) {
  assert(positions.size() == x.rows() && x.cols() % head_dim == 0);
  assert(table.cols() <= head_dim && table.cols() % 2 == 0);
  Tell(OpClass::kRope, {&x, &x});
  DoRope(stream, x, positions, table, head_dim, inverse);
}

void Backend::AttentionForward(Stream stream, const AttentionForwardArgs& args) {
  const AttentionShape& shape = args.shape;
  assert(args.q.cols() == shape.heads * shape.head_dim && args.k.cols() == shape.kv_heads * shape.head_dim);
  assert(args.out.rows() == args.q.rows() && args.v.rows() == args.k.rows());
  const double flops = 4.0 * AttentionPairs(*args.segments, shape.window) * shape.heads * shape.head_dim;
  Count(flops);
  Tell(OpClass::kAttention, {&args.q, &args.k, &args.v, &args.out}, flops);
  DoAttentionForward(stream, args, Scratch(sizes_->AttentionForward(shape)));
}

void Backend::AttentionBackward(Stream stream, const AttentionBackwardArgs& args) {
  const AttentionShape& shape = args.shape;
  assert(args.dq.rows() == args.q.rows() && args.dk.rows() == args.k.rows() &&
         args.lse.cols() == shape.heads);
  // Four products of the gradient are useful; the fifth, the scores again, is the algorithm's own
  // recomputation.
  const double flops = 8.0 * AttentionPairs(*args.segments, shape.window) * shape.heads * shape.head_dim;
  Count(flops);
  Tell(OpClass::kAttentionBackward,
       {&args.q, &args.k, &args.v, &args.out, &args.dout, &args.dq, &args.dk, &args.dv}, flops);
  DoAttentionBackward(stream, args, Scratch(sizes_->AttentionBackward(shape)));
}

void Backend::GluForward(Stream stream, Activation activation, const Tensor& gate, const Tensor& up,
                         const Tensor& out) {
  assert(gate.cols() == up.cols() && out.cols() == up.cols() && gate.rows() == out.rows());
  Tell(OpClass::kGate, {&gate, &up, &out});
  DoGluForward(stream, activation, gate, up, out);
}

void Backend::GluBackward(Stream stream, Activation activation, const Tensor& dout, const Tensor& gate,
                          const Tensor& up, const Tensor& dgate, const Tensor& dup, const Tensor& out) {
  assert(dout.cols() == gate.cols() && dgate.cols() == gate.cols() && dup.cols() == up.cols());
  Tell(OpClass::kGate, {&dout, &gate, &up, &dgate, &dup, &out});
  DoGluBackward(stream, activation, dout, gate, up, dgate, dup, out);
}

void Backend::ActivationForward(Stream stream, Activation activation, const Tensor& x, const Tensor& out) {
  assert(x.rows() == out.rows() && x.cols() == out.cols());
  Tell(OpClass::kGate, {&x, &out});
  DoActivationForward(stream, activation, x, out);
}

void Backend::ActivationBackward(Stream stream, Activation activation, const Tensor& dout, const Tensor& x,
                                 const Tensor& dx, const Tensor& out) {
  assert(dout.rows() == x.rows() && dout.cols() == x.cols());
  assert(dx.rows() == x.rows() && dx.cols() == x.cols());
  Tell(OpClass::kGate, {&dout, &x, &dx, &out});
  DoActivationBackward(stream, activation, dout, x, dx, out);
}

void Backend::Dropout(Stream stream, const Tensor& x, const DropoutArgs& args, bool accumulate,
                      const Tensor& y) {
  assert(x.rows() == y.rows() && x.cols() == y.cols());
  const Tensor summed = accumulate ? y : Tensor();
  Tell(OpClass::kCopy, {&x, &y, &summed});
  DoDropout(stream, x, args, accumulate, y);
}

void Backend::UniformNoise(Stream stream, const NoiseArgs& args, const Tensor& x) {
  assert(args.amplitudes.size() == x.rows());
  Tell(OpClass::kCopy, {&x, &x});
  DoUniformNoise(stream, args, x);
}

void Backend::CrossEntropy(Stream stream, const CrossEntropyArgs& args) {
  assert(args.labels.size() == args.logits.rows() && args.loss.dtype() == DType::kF64);
  // Read for the greatest logit, for the sum, and for the gradient, which is written.
  Tell(OpClass::kLoss, {&args.logits, &args.logits, &args.logits, &args.logits});
  DoCrossEntropy(stream, args);
}

void Backend::CrossEntropyMax(Stream stream, const CrossEntropySliceArgs& args) {
  CheckSlice(args);
  Tell(OpClass::kLoss, {&args.of.logits});
  DoCrossEntropyMax(stream, args);
}

void Backend::CrossEntropySums(Stream stream, const CrossEntropySliceArgs& args) {
  CheckSlice(args);
  Tell(OpClass::kLoss, {&args.of.logits});
  DoCrossEntropySums(stream, args);
}

void Backend::CrossEntropyLoss(Stream stream, const CrossEntropySliceArgs& args) {
  CheckSlice(args);
  Tell(OpClass::kLoss, {&args.of.logits, &args.of.logits});
  DoCrossEntropyLoss(stream, args);
}

void Backend::RowNorms(Stream stream, const Tensor& x, const Tensor& norms) {
  assert(norms.size() == x.rows());
  Tell(OpClass::kNorm, {&x, &norms});
  DoRowNorms(stream, x, norms);
}

void Backend::ColumnScale(Stream stream, const Tensor& factor, const Tensor& x, const Tensor& y) {
  assert(factor.size() == x.cols() && x.rows() == y.rows() && x.cols() == y.cols());
  Tell(OpClass::kCopy, {&x, &y});
  DoColumnScale(stream, factor, x, y);
}

void Backend::Divide(Stream stream, const Tensor& x, const Tensor& y, const Tensor& out) {
  assert(x.rows() == out.rows() && x.cols() == out.cols());
  assert(y.rows() == out.rows() && y.cols() == out.cols());
  Tell(OpClass::kCopy, {&x, &y, &out});
  DoDivide(stream, x, y, out);
}

void Backend::ColumnDot(Stream stream, const Tensor& a, const Tensor& b, const Tensor& out) {
  assert(a.rows() == b.rows() && a.cols() == b.cols() && out.size() == a.cols());
  Tell(OpClass::kCopy, {&a, &b, &out});
  DoColumnDot(stream, a, b, out, Scratch(sizes_->ColumnReduction(a.rows(), a.cols())));
}

void Backend::SumSquares(Stream stream, const Tensor& x, const Tensor& sum) {
  assert(sum.dtype() == DType::kF64);
  Tell(OpClass::kCopy, {&x});
  DoSumSquares(stream, x, sum, Scratch(sizes_->ColumnReduction(x.size(), 1)));
}

void Backend::ClipScale(Stream stream, const Tensor& sum, double loss_scale, float max_norm,
                        const Tensor& scale) {
  Tell(OpClass::kCopy, {&scale});
  DoClipScale(stream, sum, loss_scale, max_norm, scale);
}

void Backend::AdamW(Stream stream, const AdamWArgs& args) {
  CheckUpdate(args.update);
  assert(args.moment1.size() == args.update.weights.size());
  assert(args.moment2.size() == args.update.weights.size());
  TellUpdate(args.update, {&args.moment1, &args.moment2});
  DoAdamW(stream, args);
}

void Backend::AdamW8bit(Stream stream, const AdamW8bitArgs& args) {
  CheckUpdate(args.update);
  [[maybe_unused]] const int64_t n = args.update.weights.size();
  assert(args.moment1.dtype() == DType::kU8 && args.moment1.size() == n);
  assert(args.moment2.dtype() == DType::kU8 && args.moment2.size() == n);
  assert(args.scale1.size() == StateBlocks(n) && args.scale2.size() == StateBlocks(n));
  TellUpdate(args.update, {&args.moment1, &args.moment2});
  DoAdamW8bit(stream, args);
}

void Backend::Sgd(Stream stream, const SgdArgs& args) {
  CheckUpdate(args.update);
  assert(args.factor == 0.0f || args.momentum.size() == args.update.weights.size());
  TellUpdate(args.update, {&args.momentum});
  DoSgd(stream, args);
}

void Backend::Lion(Stream stream, const LionArgs& args) {
  CheckUpdate(args.update);
  assert(args.momentum.size() == args.update.weights.size());
  TellUpdate(args.update, {&args.momentum});
  DoLion(stream, args);
}

void Backend::Adafactor(Stream stream, const AdafactorArgs& args) {
  CheckUpdate(args.update);
  const Tensor& weights = args.update.weights;
  assert(args.variance.defined()
             ? args.variance.size() == weights.size()
             : args.row_variance.size() == weights.rows() && args.col_variance.size() == weights.cols());
  TellUpdate(args.update, {&args.row_variance, &args.col_variance, &args.variance});
  DoAdafactor(stream, args, Scratch(sizes_->Adafactor(weights.rows(), weights.cols())));
}

void Backend::Muon(Stream stream, const MuonArgs& args) {
  CheckUpdate(args.update);
  const Tensor& weights = args.update.weights;
  assert(args.momentum.size() == weights.size());
  const double large = static_cast<double>(std::max(weights.rows(), weights.cols()));
  const double small = static_cast<double>(std::min(weights.rows(), weights.cols()));
  const double flops = kNewtonSchulzSteps * 2.0 * small * small * (2.0 * large + small);
  Count(flops);
  Tell(OpClass::kProduct, {&weights}, flops, DType::kF32, static_cast<int64_t>(small));
  TellUpdate(args.update, {&args.momentum});
  DoMuon(stream, args, Scratch(sizes_->Muon(weights.rows(), weights.cols())));
}

double AttentionPairs(const std::vector<AttentionSegment>& segments, int64_t window) {
  double pairs = 0;
  for (const AttentionSegment& s : segments) {
    const double q = s.q_length;
    const double hidden = s.k_length - s.q_length;  // keys before the first query
    pairs += q * hidden + q * (q + 1) / 2;
    if (window > 0 && s.k_length > window) {
      // Query i sees hidden + i + 1 keys; those past the window are cut.
      const double over = s.k_length - window;                  // cut from the last query
      const double first = std::max(0.0, hidden + 1 - window);  // cut from the first query
      const double rows = first > 0 ? q : over;
      pairs -= rows * (over + std::max(first, 1.0)) / 2;
    }
  }
  return pairs;
}

}  // namespace ftune
