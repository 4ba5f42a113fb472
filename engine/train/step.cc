#include "engine/train/step.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include "base/error.h"
#include "data/loader/batch_hash.h"

namespace ftune {
namespace {

bool IsFinite(const StepOutput& output) {
  return std::isfinite(output.loss) && std::isfinite(output.grad_norm);
}

}  // namespace

TrainStep::TrainStep(Backend& backend, Stream stream, Model& model, Optimizer& optimizer,
                     const Options& options, ModelShards* shards, Pipeline* pipeline)
    : backend_(backend),
      stream_(stream),
      optimizer_(optimizer),
      options_(options),
      own_shards_(shards != nullptr ? nullptr : ModelShards::Single(backend, stream, model)),
      shards_(shards != nullptr ? shards : own_shards_.get()),
      runner_(backend, stream, model, options.recompute, pipeline),
      scaler_(options.loss_scaler ? std::optional<LossScaler>(*options.loss_scaler) : std::nullopt),
      agreement_(shards_->mesh(), stream),
      loss_(backend.Allocate(DType::kF64, 1, 1, Category::kBuffers)),
      sum_of_squares_(backend.Allocate(DType::kF64, 1, 1, Category::kBuffers)),
      gradient_scale_(backend.Allocate(1, 1, Category::kBuffers)) {
  const Pipeline& place = runner_.pipeline();
  if (!place.GainsWithoutBarrier()) return;
  // A stage without trained parameters has nothing on disk; it does as the others do.
  const bool on_disk = shards_->AgreeOn(optimizer.disk() != nullptr ? 1 : 0) != 0;
  why_barrier_ = WhyBarrier(place, options.max_grad_norm, on_disk);
  if (why_barrier_.empty()) optimistic_.emplace(backend, stream, optimizer, *shards_);
}

absl::Status TrainStep::status() const {
  FTUNE_RETURN_IF_ERROR(shards_->status());
  return runner_.pipeline().status();
}

CommTraffic TrainStep::traffic() const {
  CommTraffic total = shards_->traffic();
  total += runner_.pipeline().traffic();
  return total;
}

absl::StatusOr<StepOutput> TrainStep::Run(const StepInput& input, const std::function<bool()>& stop) {
  // Who looks at the gradients before the update looks at those that all have agreed on.
  const bool optimistic = optimistic_ && !input.before_update;
  return optimistic ? RunOptimistically(input, stop) : RunWithBarrier(input, stop);
}

absl::StatusOr<StepOutput> TrainStep::RunWithBarrier(const StepInput& input,
                                                     const std::function<bool()>& stop) {
  StepOutput output = BeginOutput();
  FTUNE_ASSIGN_OR_RETURN(const std::vector<Action>* actions, ActionsOf(input));
  FTUNE_RETURN_IF_ERROR(agreement_.Agree(FactsOf(input)));
  FTUNE_ASSIGN_OR_RETURN(output.completed, MakeGradients(input, *actions, output.loss_scale, [&] {
                           return shards_->AgreeOn(stop() ? 1 : 0) != 0;
                         }));
  if (!output.completed) return output;

  backend_.Zero(stream_, sum_of_squares_);
  shards_->AddSquares(sum_of_squares_);
  FTUNE_RETURN_IF_ERROR(Validate(input, output));
  if (!IsFinite(output)) return output;
  SetGradientScale(output.loss_scale);

  const TimeScope time(options_.timeline, kComputeLane, "update");
  if (input.before_update) FTUNE_RETURN_IF_ERROR(input.before_update());
  FTUNE_RETURN_IF_ERROR(optimizer_.Step(backend_, stream_, input.learning_rate, gradient_scale_));
  shards_->PublishValues();
  return output;
}

absl::StatusOr<StepOutput> TrainStep::RunOptimistically(const StepInput& input,
                                                        const std::function<bool()>& stop) {
  StepOutput output = BeginOutput();
  if (std::exchange(stop_agreed_, false)) return output;
  FTUNE_ASSIGN_OR_RETURN(const std::vector<Action>* actions, ActionsOf(input));
  agreement_.Start(FactsOf(input), stop());
  const absl::StatusOr<bool> made = MakeGradients(input, *actions, output.loss_scale, [] { return false; });
  if (!made.ok()) {
    // Ranks that are at different steps fail in many ways, of which this is the reason.
    FTUNE_RETURN_IF_ERROR(agreement_.Finish().status());
    return made.status();
  }
  output.completed = true;

  // Nothing is clipped, so no norm is needed.
  backend_.Zero(stream_, sum_of_squares_);
  SetGradientScale(output.loss_scale);
  shards_->AddSquares(sum_of_squares_);
  {
    const TimeScope time(options_.timeline, kComputeLane, "update");
    FTUNE_RETURN_IF_ERROR(optimistic_->Apply(input.learning_rate, gradient_scale_));
  }

  // From here on ranks wait for each other.
  const absl::StatusOr<bool> stopping = agreement_.Finish();
  const absl::Status valid = stopping.ok() ? Validate(input, output) : stopping.status();
  if (!valid.ok() || !IsFinite(output)) optimistic_->TakeBack();
  FTUNE_RETURN_IF_ERROR(valid);
  stop_agreed_ = *stopping;
  return output;
}

StepFacts TrainStep::FactsOf(const StepInput& input) const {
  return {.step = input.step,
          .trained_tokens = input.trained_tokens,
          .microbatches = std::ssize(input.microbatches),
          .schedule = runner_.pipeline().fingerprint(),
          .batch_hash = agreement_.compares_batches() ? HashOf(input.microbatches) : 0};
}

StepOutput TrainStep::BeginOutput() const { return {.loss_scale = scaler_ ? scaler_->scale() : 1.0}; }

absl::StatusOr<const std::vector<Action>*> TrainStep::ActionsOf(const StepInput& input) {
  return runner_.pipeline().Actions(static_cast<int>(input.microbatches.size()));
}

absl::StatusOr<bool> TrainStep::MakeGradients(const StepInput& input, const std::vector<Action>& actions,
                                              double loss_scale, const std::function<bool()>& stop) {
  shards_->BeginStep();
  backend_.Zero(stream_, loss_);
  absl::Status prefetched;  // optimizer states, as backward goes from block to block
  const bool completed =
      runner_.Run(actions, input.microbatches,
                  {.seed = options_.seed,
                   .step = static_cast<uint64_t>(input.step),
                   .loss_scale = static_cast<float>(loss_scale / static_cast<double>(input.trained_tokens)),
                   .label_smoothing = options_.label_smoothing,
                   .neftune_alpha = options_.neftune_alpha,
                   .loss = loss_},
                  stop, [&] { prefetched.Update(optimizer_.Prefetch()); });
  FTUNE_RETURN_IF_ERROR(prefetched);
  FTUNE_RETURN_IF_ERROR(runner_.pipeline().status());
  FTUNE_RETURN_IF_ERROR(shards_->FinishGradients());
  return completed;
}

absl::Status TrainStep::Validate(const StepInput& input, StepOutput& output) {
  shards_->SumOverShards(sum_of_squares_);
  shards_->SumOverBatch(loss_);
  output.loss = ReadScalar(loss_) / static_cast<double>(input.trained_tokens);
  output.grad_norm = std::sqrt(ReadScalar(sum_of_squares_)) / output.loss_scale;
  AgreeOnFinite(output);
  FTUNE_RETURN_IF_ERROR(shards_->status());
  if (!scaler_ || !std::isfinite(output.loss)) return absl::OkStatus();
  output.overflow = !std::isfinite(output.grad_norm);
  scaler_->Update(output.overflow);
  return absl::OkStatus();
}

void TrainStep::SetGradientScale(double loss_scale) {
  backend_.ClipScale(stream_, sum_of_squares_, loss_scale,
                     options_.max_grad_norm.value_or(std::numeric_limits<float>::infinity()),
                     gradient_scale_);
}

void TrainStep::AgreeOnFinite(StepOutput& output) {
  enum : int64_t { kFinite, kGradientsNot, kLossNot };
  const int64_t own = !std::isfinite(output.loss)        ? kLossNot
                      : !std::isfinite(output.grad_norm) ? kGradientsNot
                                                         : kFinite;
  const int64_t worst = shards_->AgreeOn(own);
  if (worst == own) return;
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  (worst == kLossNot ? output.loss : output.grad_norm) = kNaN;
}

double TrainStep::ReadScalar(const Tensor& scalar) {
  double value = 0.0;
  backend_.Download(stream_, scalar, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace ftune
