#include "engine/pipeline/runner.h"

#include <map>

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
  model_.Refresh(backend_, stream_);
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
      Forward(flight, MakeContext(flight, coordinates));
      continue;
    }
    InFlight& flight = in_flight.at(action.microbatch);
    const Context context = MakeContext(flight, coordinates);
    switch (action.kind) {
      case ActionKind::kBackward:
        Backward(flight, context, true, before_block);
        break;
      case ActionKind::kBackwardInput:
        Backward(flight, context, false, before_block);
        break;
      case ActionKind::kBackwardWeight:
        BackwardWeight(flight, context);
        break;
      case ActionKind::kForward:
        break;  // above
    }
    if (action.kind != ActionKind::kBackwardInput) in_flight.erase(action.microbatch);
  }
  return true;
}

void Runner::Forward(InFlight& flight, const Context& context) {
  auto& blocks = model_.blocks();
  flight.saved.resize(blocks.size());
  flight.inputs.resize(blocks.size());
  Tensor x;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const bool recomputed = Recomputed(i);
    if (recomputed) flight.inputs[i] = x;
    // Below the first trainable parameter nothing is differentiated.
    const bool keeps = !recomputed && (trainable_before_[i] || blocks[i]->store().has_trainable());
    x = blocks[i]->Forward(context, x, keeps ? &flight.saved[i] : nullptr, true);
  }
}

void Runner::Backward(InFlight& flight, const Context& context, bool with_weights,
                      const std::function<void()>& before_block) {
  auto& blocks = model_.blocks();
  Tensor gradient;
  for (size_t i = blocks.size(); i-- > 0;) {
    if (!trainable_before_[i] && !blocks[i]->store().has_trainable()) return;
    if (before_block) before_block();
    if (Recomputed(i)) {
      RecomputeScope recompute(backend_);
      blocks[i]->Forward(context, flight.inputs[i], &flight.saved[i], false);
      flight.inputs[i] = Tensor();
    }
    gradient =
        blocks[i]->BackwardInput(context, gradient, flight.saved[i], trainable_before_[i], with_weights);
  }
}

void Runner::BackwardWeight(InFlight& flight, const Context& context) {
  auto& blocks = model_.blocks();
  for (size_t i = blocks.size(); i-- > 0;) {
    if (blocks[i]->store().has_trainable()) blocks[i]->BackwardWeight(context, flight.saved[i]);
  }
}

void Runner::Evaluate(const Batch& batch, const Tensor& loss) {
  model_.Refresh(backend_, stream_);
  InFlight flight;
  flight.batch = UploadBatch(backend_, stream_, batch, model_.positions());
  const Context context = {.backend = backend_, .stream = stream_, .batch = flight.batch, .loss = loss};
  Tensor x;
  for (auto& block : model_.blocks()) x = block->Forward(context, x, nullptr, true);
}

}  // namespace ftune
