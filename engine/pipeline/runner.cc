#include "engine/pipeline/runner.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace ftune {

struct Runner::Step {
  const std::vector<Batch>& microbatches;
  const StepCoordinates& coordinates;
  const std::function<void()>& before_block;

  std::map<Place, InFlight> in_flight;
  std::map<int, std::weak_ptr<const DeviceBatch>> batches;  // by microbatch
  std::map<Place, Arrival> activations, gradients;          // of a stage's input; of its output
  std::map<Place, Tensor> outputs, input_gradients;         // made here, to be sent
  std::map<int, StageProgress> progress;
};

Runner::Runner(Backend& backend, Stream stream, Model& model, const RecomputePolicy& recompute,
               Pipeline* pipeline, std::unique_ptr<StageWork> work)
    : backend_(backend),
      stream_(stream),
      model_(model),
      own_pipeline_(pipeline != nullptr ? nullptr : Pipeline::Single(model)),
      pipeline_(pipeline != nullptr ? pipeline : own_pipeline_.get()),
      work_(work ? std::move(work)
                 : std::make_unique<ModelWork>(backend, stream, model, recompute,
                                               pipeline_->first_trainable())),
      evaluation_(backend, stream, model, *pipeline_, *work_) {
  model_.set_keep(recompute.mode == RecomputePolicy::Mode::kSelective ? Keep::kProducts : Keep::kAll);
}

bool Runner::Run(const std::vector<Action>& actions, const std::vector<Batch>& microbatches,
                 const StepCoordinates& coordinates, const std::function<bool()>& stop,
                 const std::function<void()>& before_block) {
  Step step = {.microbatches = microbatches, .coordinates = coordinates, .before_block = before_block};
  for (const Action& action : actions) {
    StageProgress& progress = step.progress[action.stage];
    if (action.kind == ActionKind::kForward) ++progress.forwards;
    if (MakesParameterGradients(action.kind)) ++progress.gradients;
  }
  // Nothing is in flight on any rank: at the beginning, and, where there are no others, between microbatches.
  bool first = true;
  for (const Action& action : actions) {
    const bool may_stop =
        first || (pipeline_->alone() && action.kind == ActionKind::kForward && step.in_flight.empty());
    if (may_stop && stop()) return false;
    first = false;
    Execute(step, action);
    sent_.Release();
    if (failed()) return false;
  }
  return !failed();
}

void Runner::Execute(Step& step, const Action& action) {
  const Place place = {action.stage, action.microbatch};
  const auto mark = [&](std::string_view phase) {
    return TimeScope(work_->timeline(), kStepLane, phase, action.microbatch);
  };
  switch (action.kind) {
    case ActionKind::kForward: {
      const TimeScope time = mark("forward");
      return Forward(step, action);
    }
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput: {
      const TimeScope time = mark("backward");
      return Backward(step, action);
    }
    case ActionKind::kBackwardWeight: {
      const TimeScope time = mark("weight gradients");
      return BackwardWeight(step, action);
    }
    case ActionKind::kSendActivation:
      return Send(step.outputs, place, action.stage + 1);
    case ActionKind::kReceiveActivation:
      return Receive(step, step.activations, place, action.stage - 1);
    case ActionKind::kSendGradient:
      return Send(step.input_gradients, place, action.stage - 1);
    case ActionKind::kReceiveGradient:
      return Receive(step, step.gradients, place, action.stage + 1);
    case ActionKind::kGather:
    case ActionKind::kRelease:
    case ActionKind::kReduce:
      return;  // where the schedule has them for a stage, BlockHooks do them for each of its blocks
  }
}

const LocalStage& Runner::StageOf(int stage) const {
  const auto& stages = model_.stages();
  return *std::find_if(stages.begin(), stages.end(), [&](const LocalStage& s) { return s.stage == stage; });
}

Context Runner::MakeContext(const DeviceBatch& batch, const StepCoordinates& coordinates) {
  return {.backend = backend_,
          .stream = stream_,
          .batch = batch,
          .training = true,
          .seed = coordinates.seed,
          .step = coordinates.step,
          .loss_scale = coordinates.loss_scale,
          .label_smoothing = coordinates.label_smoothing,
          .loss = coordinates.loss};
}

std::shared_ptr<const DeviceBatch> Runner::BatchOf(const Step& step, const LocalStage& stage,
                                                   int microbatch) {
  const auto known = step.batches.find(microbatch);
  if (known != step.batches.end()) {
    if (std::shared_ptr<const DeviceBatch> batch = known->second.lock()) return batch;
  }
  const Batch& batch = step.microbatches[microbatch];
  auto uploaded = std::make_shared<DeviceBatch>(UploadBatch(backend_, stream_, batch, model_.positions()));
  const float alpha = step.coordinates.neftune_alpha;
  if (alpha > 0.0f && stage.stage == 0) {
    uploaded->noise = UploadNoise(backend_, stream_, batch, alpha, model_.config().hidden_size);
  }
  return uploaded;
}

void Runner::Forward(Step& step, const Action& action) {
  const Place place = {action.stage, action.microbatch};
  const LocalStage& stage = StageOf(action.stage);
  StageProgress& progress = step.progress[action.stage];
  const bool keeps = work_->Differentiated(stage);
  InFlight flight = {.batch = BatchOf(step, stage, action.microbatch)};
  step.batches[action.microbatch] = flight.batch;
  Tensor x = action.stage > 0 ? Take(step.activations, place) : Tensor();
  Tensor y = work_->Forward(stage, flight, MakeContext(*flight.batch, step.coordinates), std::move(x),
                            {.keeps = keeps,
                             .refresh = !std::exchange(progress.refreshed, true),
                             .last = --progress.forwards == 0});
  if (keeps) step.in_flight[place] = std::move(flight);
  if (action.stage + 1 == pipeline_->stages()) return;
  if (pipeline_->Here(action.stage + 1)) {
    step.activations[{action.stage + 1, action.microbatch}] = {std::move(y), {}};
  } else {
    step.outputs[place] = std::move(y);
  }
}

void Runner::Backward(Step& step, const Action& action) {
  const Place place = {action.stage, action.microbatch};
  InFlight& flight = step.in_flight.at(place);
  const bool with_weights = action.kind == ActionKind::kBackward;
  bool last = false;
  if (with_weights) last = --step.progress[action.stage].gradients == 0;
  const bool top = action.stage + 1 == pipeline_->stages();
  Tensor gradient =
      work_->Backward(StageOf(action.stage), flight, MakeContext(*flight.batch, step.coordinates),
                      top ? Tensor() : Take(step.gradients, place),
                      {.with_weights = with_weights, .last = last, .before_block = step.before_block});
  if (with_weights) step.in_flight.erase(place);
  if (!gradient.defined()) return;
  if (pipeline_->Here(action.stage - 1)) {
    step.gradients[{action.stage - 1, action.microbatch}] = {std::move(gradient), {}};
  } else {
    step.input_gradients[place] = std::move(gradient);
  }
}

void Runner::BackwardWeight(Step& step, const Action& action) {
  const Place place = {action.stage, action.microbatch};
  InFlight& flight = step.in_flight.at(place);
  const bool last = --step.progress[action.stage].gradients == 0;
  work_->BackwardWeight(StageOf(action.stage), flight, MakeContext(*flight.batch, step.coordinates), last);
  step.in_flight.erase(place);
}

void Runner::Send(std::map<Place, Tensor>& made, Place place, int to_stage) {
  Tensor tensor = std::move(made.extract(place).mapped());
  Pending pending = pipeline_->Send(stream_, tensor, to_stage);
  sent_.Put(std::move(tensor), std::move(pending));
}

void Runner::Receive(Step& step, std::map<Place, Arrival>& arrivals, Place place, int from_stage) {
  Tensor tensor = NewRows(backend_, model_, step.microbatches[place.second].tokens());
  Pending pending = pipeline_->Receive(stream_, tensor, from_stage);
  arrivals[place] = {std::move(tensor), std::move(pending)};
}

Tensor Runner::Take(std::map<Place, Arrival>& arrivals, Place place) {
  Arrival arrival = std::move(arrivals.extract(place).mapped());
  arrival.pending.Wait().IgnoreError();  // it stays in the link
  return std::move(arrival.tensor);
}

void Runner::Evaluate(const Batch& batch, const Tensor& loss) {
  const DeviceBatch uploaded = UploadBatch(backend_, stream_, batch, model_.positions());
  evaluation_.Loss({.backend = backend_, .stream = stream_, .batch = uploaded, .loss = loss});
}

}  // namespace ftune
