#include "engine/train/step.h"

#include <cmath>
#include <limits>
#include <span>

#include "base/error.h"

namespace ftune {

TrainStep::TrainStep(Backend& backend, Stream stream, Model& model, Optimizer& optimizer,
                     const Options& options)
    : backend_(backend),
      stream_(stream),
      model_(model),
      optimizer_(optimizer),
      options_(options),
      runner_(backend, stream, model, options.recompute),
      scaler_(options.loss_scaler ? std::optional<LossScaler>(*options.loss_scaler) : std::nullopt),
      loss_(backend.Allocate(DType::kF64, 1, 1, Category::kBuffers)),
      sum_of_squares_(backend.Allocate(DType::kF64, 1, 1, Category::kBuffers)),
      gradient_scale_(backend.Allocate(1, 1, Category::kBuffers)) {}

absl::StatusOr<StepOutput> TrainStep::Run(const StepInput& input, const std::function<bool()>& stop) {
  StepOutput output;
  const double tokens = static_cast<double>(input.trained_tokens);
  output.loss_scale = scaler_ ? scaler_->scale() : 1.0;

  // Gradients of the whole batch, microbatch by microbatch.
  ZeroGradients();
  backend_.Zero(stream_, loss_);
  const std::vector<Action> actions = SingleStageSchedule(static_cast<int>(input.microbatches.size()));
  absl::Status prefetched;  // optimizer states, as backward goes from block to block
  output.completed = runner_.Run(actions, input.microbatches,
                                 {.seed = options_.seed,
                                  .step = static_cast<uint64_t>(input.step),
                                  .loss_scale = static_cast<float>(output.loss_scale / tokens),
                                  .label_smoothing = options_.label_smoothing,
                                  .neftune_alpha = options_.neftune_alpha,
                                  .loss = loss_},
                                 stop, [&] { prefetched.Update(optimizer_.Prefetch()); });
  FTUNE_RETURN_IF_ERROR(prefetched);
  if (!output.completed) return output;

  // Their norm, over all blocks; what takes the loss scale out of them again and clips them.
  backend_.Zero(stream_, sum_of_squares_);
  for (auto& block : model_.blocks()) {
    if (block->store().has_trainable()) {
      backend_.SumSquares(stream_, block->store().flat_gradients(), sum_of_squares_);
    }
  }
  backend_.ClipScale(stream_, sum_of_squares_, output.loss_scale,
                     options_.max_grad_norm.value_or(std::numeric_limits<float>::infinity()),
                     gradient_scale_);

  output.loss = ReadScalar(loss_) / tokens;
  output.grad_norm = std::sqrt(ReadScalar(sum_of_squares_)) / output.loss_scale;
  if (!std::isfinite(output.loss)) return output;
  const bool finite = std::isfinite(output.grad_norm);
  output.overflow = scaler_ && !finite;
  if (scaler_) scaler_->Update(output.overflow);
  if (!finite) return output;

  FTUNE_RETURN_IF_ERROR(optimizer_.Step(backend_, stream_, input.learning_rate, gradient_scale_));
  return output;
}

void TrainStep::ZeroGradients() {
  for (auto& block : model_.blocks()) {
    if (block->store().has_trainable()) backend_.Zero(stream_, block->store().flat_gradients());
  }
}

double TrainStep::ReadScalar(const Tensor& scalar) {
  double value = 0.0;
  backend_.Download(stream_, scalar, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace ftune
