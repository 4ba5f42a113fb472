#include "engine/pipeline/model_work.h"

#include <utility>

namespace ftune {

ModelWork::ModelWork(Backend& backend, Stream stream, Model& model, const RecomputePolicy& recompute,
                     size_t first_trainable)
    : backend_(backend),
      stream_(stream),
      model_(model),
      recompute_(recompute),
      first_trainable_(first_trainable) {}

bool ModelWork::Differentiated(size_t block) const {
  return model_.blocks()[block]->number() >= first_trainable_;
}

bool ModelWork::DifferentiatedBelow(size_t block) const {
  return model_.blocks()[block]->number() > first_trainable_;
}

bool ModelWork::Recomputed(size_t block) const {
  // The embedding keeps nothing and the head makes its gradients in forward: only decoder blocks are
  // recomputed.
  return model_.blocks()[block]->hidden() && recompute_.mode == RecomputePolicy::Mode::kEveryNth &&
         (model_.blocks()[block]->number() - 1) % recompute_.every == 0;
}

std::optional<size_t> ModelWork::NextInBackward(const LocalStage& stage, size_t block) const {
  if (block == stage.begin || !Differentiated(block - 1)) return std::nullopt;
  return model_.blocks()[block - 1]->backward_reads_values() ? std::optional(block - 1) : std::nullopt;
}

TimeScope ModelWork::Time(const char* what, size_t block) const {
  return TimeScope(timeline(), kComputeLane, what, static_cast<int64_t>(model_.blocks()[block]->number()));
}

Tensor ModelWork::ForwardBlock(size_t block, const LocalStage& stage, const Context& context, const Tensor& x,
                               Saved* saved, const ForwardOptions& options) {
  auto& blocks = model_.blocks();
  const BlockUse use(model_.hooks(), block, block + 1 < stage.end ? std::optional(block + 1) : std::nullopt);
  const TimeScope time = Time("forward of block", block);
  if (options.refresh) blocks[block]->Refresh(backend_, stream_);
  // The head makes its gradients in forward.
  const bool makes_gradients = model_.is_head(block) && saved != nullptr && context.training;
  if (makes_gradients) model_.hooks().BeforeGradients(block);
  Tensor y = blocks[block]->Forward(context, x, saved, true);
  if (makes_gradients) model_.hooks().AfterGradients(block, options.last);
  return y;
}

Tensor ModelWork::Forward(const LocalStage& stage, InFlight& flight, const Context& context, Tensor x,
                          const ForwardOptions& options) {
  flight.saved.resize(stage.end - stage.begin);
  flight.inputs.resize(stage.end - stage.begin);
  for (size_t i = stage.begin; i < stage.end && !model_.hooks().failed(); ++i) {
    const size_t place = i - stage.begin;
    const bool recomputed = options.keeps && Recomputed(i);
    if (recomputed) flight.inputs[place] = x;
    // Below the first trainable parameter nothing is differentiated.
    const bool keeps = options.keeps && !recomputed && Differentiated(i);
    x = ForwardBlock(i, stage, context, x, keeps ? &flight.saved[place] : nullptr, options);
  }
  return x;
}

Tensor ModelWork::Backward(const LocalStage& stage, InFlight& flight, const Context& context, Tensor gradient,
                           const BackwardOptions& options) {
  auto& blocks = model_.blocks();
  for (size_t i = stage.end; i-- > stage.begin;) {
    if (!Differentiated(i) || model_.hooks().failed()) return {};
    const size_t place = i - stage.begin;
    if (options.before_block) options.before_block();
    std::optional<BlockUse> use;
    if (blocks[i]->backward_reads_values()) use.emplace(model_.hooks(), i, NextInBackward(stage, i));
    const TimeScope time = Time("backward of block", i);
    if (Recomputed(i)) {
      RecomputeScope recompute(backend_);
      blocks[i]->Forward(context, flight.inputs[place], &flight.saved[place], false);
      flight.inputs[place] = Tensor();
    }
    const bool makes_gradients =
        options.with_weights && blocks[i]->store().has_trainable() && !model_.is_head(i);
    if (makes_gradients) model_.hooks().BeforeGradients(i);
    gradient = blocks[i]->BackwardInput(context, gradient, flight.saved[place], DifferentiatedBelow(i),
                                        options.with_weights);
    if (makes_gradients) model_.hooks().AfterGradients(i, options.last);
  }
  return gradient;
}

void ModelWork::BackwardWeight(const LocalStage& stage, InFlight& flight, const Context& context, bool last) {
  auto& blocks = model_.blocks();
  for (size_t i = stage.end; i-- > stage.begin;) {
    if (!blocks[i]->store().has_trainable() || model_.is_head(i) || model_.hooks().failed()) continue;
    std::optional<BlockUse> use;
    if (blocks[i]->backward_weight_reads_values()) use.emplace(model_.hooks(), i);
    const TimeScope time = Time("weight gradients of block", i);
    model_.hooks().BeforeGradients(i);
    blocks[i]->BackwardWeight(context, flight.saved[i - stage.begin]);
    model_.hooks().AfterGradients(i, last);
  }
}

}  // namespace ftune
