#include "engine/pipeline/runner.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ftune {

Runner::Runner(Backend& backend, Stream stream, Model& model, const RecomputePolicy& recompute)
    : backend_(backend), stream_(stream), model_(model), recompute_(recompute) {
  model_.set_keep(recompute.mode == RecomputePolicy::Mode::kSelective ? Keep::kProducts : Keep::kAll);
  bool any = false;
  for (auto& block : model_.blocks()) {
    trainable_before_.push_back(any);
    any = any || block->store().has_trainable();
  }
}

bool Runner::Recomputed(size_t block) const {
  // The embedding keeps nothing and the head makes its gradients in forward: only decoder blocks are
  // recomputed.
  const bool decoder = block > 0 && block + 1 < model_.blocks().size();
  return decoder && recompute_.mode == RecomputePolicy::Mode::kEveryNth &&
         (block - 1) % recompute_.every == 0;
}

Context Runner::MakeContext(const InFlight& flight, const StepCoordinates& coordinates) {
  return {.backend = backend_,
          .stream = stream_,
          .batch = flight.batch,
          .training = true,
          .seed = coordinates.seed,
          .step = coordinates.step,
          .loss_scale = coordinates.loss_scale,
          .label_smoothing = coordinates.label_smoothing,
          .loss = coordinates.loss};
}

bool Runner::Run(const std::vector<Action>& actions, const std::vector<Batch>& microbatches,
                 const StepCoordinates& coordinates, const std::function<bool()>& stop,
                 const std::function<void()>& before_block) {
  const auto makes_gradients = [](const Action& action) {
    return action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight;
  };
  auto gradients_left = std::count_if(actions.begin(), actions.end(), makes_gradients);
  bool refresh = true;
  std::map<int, InFlight> in_flight;
  for (const Action& action : actions) {
    if (action.kind == ActionKind::kForward) {
      if (in_flight.empty() && stop()) return false;
      InFlight& flight = in_flight[action.microbatch];
      flight.batch = UploadBatch(backend_, stream_, microbatches[action.microbatch], model_.positions());
      if (coordinates.neftune_alpha > 0.0f) {
        flight.batch.noise = UploadNoise(backend_, stream_, microbatches[action.microbatch],
                                         coordinates.neftune_alpha, model_.config().hidden_size);
      }
      Forward(flight, MakeContext(flight, coordinates), std::exchange(refresh, false));
      if (model_.hooks().failed()) return false;
      continue;
    }
    if (makes_gradients(action)) --gradients_left;
    const bool last = gradients_left == 0;
    InFlight& flight = in_flight.at(action.microbatch);
    const Context context = MakeContext(flight, coordinates);
    switch (action.kind) {
      case ActionKind::kBackward:
        Backward(flight, context, true, last, before_block);
        break;
      case ActionKind::kBackwardInput:
        Backward(flight, context, false, last, before_block);
        break;
      case ActionKind::kBackwardWeight:
        BackwardWeight(flight, context, last);
        break;
      case ActionKind::kForward:
        break;  // above
    }
    if (model_.hooks().failed()) return false;
    if (action.kind != ActionKind::kBackwardInput) in_flight.erase(action.microbatch);
  }
  return true;
}

bool Runner::Differentiated(size_t block) const {
  return trainable_before_[block] || model_.blocks()[block]->store().has_trainable();
}

std::optional<size_t> Runner::NextInBackward(size_t block) const {
  if (block == 0 || !Differentiated(block - 1)) return std::nullopt;
  return model_.blocks()[block - 1]->backward_reads_values() ? std::optional(block - 1) : std::nullopt;
}

Tensor Runner::ForwardBlock(size_t block, const Context& context, const Tensor& x, Saved* saved,
                            bool refresh) {
  auto& blocks = model_.blocks();
  const bool head = block + 1 == blocks.size();
  const BlockUse use(model_.hooks(), block, head ? std::nullopt : std::optional(block + 1));
  const TimeScope time(timeline_, kComputeLane, "forward of block", static_cast<int64_t>(block));
  if (refresh) blocks[block]->Refresh(backend_, stream_);
  // The head makes its gradients in forward.
  if (head && saved != nullptr && context.training) model_.hooks().BeforeGradients(block);
  return blocks[block]->Forward(context, x, saved, true);
}

void Runner::Forward(InFlight& flight, const Context& context, bool refresh) {
  const size_t blocks = model_.blocks().size();
  flight.saved.resize(blocks);
  flight.inputs.resize(blocks);
  Tensor x;
  for (size_t i = 0; i < blocks && !model_.hooks().failed(); ++i) {
    const bool recomputed = Recomputed(i);
    if (recomputed) flight.inputs[i] = x;
    // Below the first trainable parameter nothing is differentiated.
    const bool keeps = !recomputed && Differentiated(i);
    x = ForwardBlock(i, context, x, keeps ? &flight.saved[i] : nullptr, refresh);
  }
}

void Runner::Backward(InFlight& flight, const Context& context, bool with_weights, bool last,
                      const std::function<void()>& before_block) {
  auto& blocks = model_.blocks();
  Tensor gradient;
  for (size_t i = blocks.size(); i-- > 0;) {
    if (!Differentiated(i) || model_.hooks().failed()) return;
    if (before_block) before_block();
    std::optional<BlockUse> use;
    if (blocks[i]->backward_reads_values()) use.emplace(model_.hooks(), i, NextInBackward(i));
    const TimeScope time(timeline_, kComputeLane, "backward of block", static_cast<int64_t>(i));
    if (Recomputed(i)) {
      RecomputeScope recompute(backend_);
      blocks[i]->Forward(context, flight.inputs[i], &flight.saved[i], false);
      flight.inputs[i] = Tensor();
    }
    const bool makes_gradients = with_weights && blocks[i]->store().has_trainable();
    if (makes_gradients) model_.hooks().BeforeGradients(i);
    gradient =
        blocks[i]->BackwardInput(context, gradient, flight.saved[i], trainable_before_[i], with_weights);
    if (makes_gradients) model_.hooks().AfterGradients(i, last);
  }
}

void Runner::BackwardWeight(InFlight& flight, const Context& context, bool last) {
  auto& blocks = model_.blocks();
  for (size_t i = blocks.size(); i-- > 0;) {
    if (!blocks[i]->store().has_trainable() || model_.hooks().failed()) continue;
    const TimeScope time(timeline_, kComputeLane, "weight gradients of block", static_cast<int64_t>(i));
    model_.hooks().BeforeGradients(i);
    blocks[i]->BackwardWeight(context, flight.saved[i]);
    model_.hooks().AfterGradients(i, last);
  }
}

void Runner::Evaluate(const Batch& batch, const Tensor& loss) {
  InFlight flight;
  flight.batch = UploadBatch(backend_, stream_, batch, model_.positions());
  const Context context = {.backend = backend_, .stream = stream_, .batch = flight.batch, .loss = loss};
  Tensor x;
  for (size_t i = 0; i < model_.blocks().size() && !model_.hooks().failed(); ++i) {
    x = ForwardBlock(i, context, x, nullptr, true);
  }
}

}  // namespace ftune
