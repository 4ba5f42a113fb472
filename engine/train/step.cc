#include "engine/train/step.h"

#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

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
      loss_(backend.Allocate(DType::kF64, 1, 1, Category::kBuffers)),
      sum_of_squares_(backend.Allocate(DType::kF64, 1, 1, Category::kBuffers)),
      gradient_scale_(backend.Allocate(1, 1, Category::kBuffers)) {}

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
  StepOutput output;
  const double tokens = static_cast<double>(input.trained_tokens);
  output.loss_scale = scaler_ ? scaler_->scale() : 1.0;
  FTUNE_RETURN_IF_ERROR(CheckSameStep(input));

  // Gradients of the whole batch, microbatch by microbatch.
  shards_->BeginStep();
  backend_.Zero(stream_, loss_);
  FTUNE_ASSIGN_OR_RETURN(const std::vector<Action>* actions,
                         runner_.pipeline().Actions(static_cast<int>(input.microbatches.size())));
  absl::Status prefetched;  // optimizer states, as backward goes from block to block
  output.completed = runner_.Run(
      *actions, input.microbatches,
      {.seed = options_.seed,
       .step = static_cast<uint64_t>(input.step),
       .loss_scale = static_cast<float>(output.loss_scale / tokens),
       .label_smoothing = options_.label_smoothing,
       .neftune_alpha = options_.neftune_alpha,
       .loss = loss_},
      [&] { return shards_->AgreeOn(stop() ? 1 : 0) != 0; },
      [&] { prefetched.Update(optimizer_.Prefetch()); });
  FTUNE_RETURN_IF_ERROR(prefetched);
  FTUNE_RETURN_IF_ERROR(runner_.pipeline().status());
  FTUNE_RETURN_IF_ERROR(shards_->FinishGradients());
  if (!output.completed) return output;

  // Their norm, over all blocks and ranks; what takes the loss scale out of them again and clips them.
  backend_.Zero(stream_, sum_of_squares_);
  shards_->AddSquares(sum_of_squares_);
  shards_->SumOverShards(sum_of_squares_);
  shards_->SumOverBatch(loss_);
  backend_.ClipScale(stream_, sum_of_squares_, output.loss_scale,
                     options_.max_grad_norm.value_or(std::numeric_limits<float>::infinity()),
                     gradient_scale_);

  output.loss = ReadScalar(loss_) / tokens;
  output.grad_norm = std::sqrt(ReadScalar(sum_of_squares_)) / output.loss_scale;
  AgreeOnFinite(output);
  FTUNE_RETURN_IF_ERROR(shards_->status());
  if (!std::isfinite(output.loss)) return output;
  const bool finite = std::isfinite(output.grad_norm);
  output.overflow = scaler_ && !finite;
  if (scaler_) scaler_->Update(output.overflow);
  if (!finite) return output;

  const TimeScope time(options_.timeline, kComputeLane, "update");
  if (input.before_update) FTUNE_RETURN_IF_ERROR(input.before_update());
  FTUNE_RETURN_IF_ERROR(optimizer_.Step(backend_, stream_, input.learning_rate, gradient_scale_));
  shards_->PublishValues();
  return output;
}

absl::Status TrainStep::CheckSameStep(const StepInput& input) {
  struct Fact {
    const char* name;
    int64_t value;
  };
  const std::array<Fact, 3> facts = {{{"the step", input.step},
                                      {"the trained tokens of the global batch", input.trained_tokens},
                                      {"the number of microbatches", std::ssize(input.microbatches)}}};
  std::array<int64_t, 2 * facts.size()> extremes;  // the greatest values, and those of the opposites
  for (size_t i = 0; i < facts.size(); ++i) {
    extremes[2 * i] = facts[i].value;
    extremes[2 * i + 1] = -facts[i].value;
  }
  FTUNE_RETURN_IF_ERROR(shards_->mesh().world().Run(Call::AllReduce(
      {reinterpret_cast<std::byte*>(extremes.data()), std::ssize(extremes), DType::kI64, stream_},
      ReduceOp::kMax)));
  for (size_t i = 0; i < facts.size(); ++i) {
    const int64_t greatest = extremes[2 * i], least = -extremes[2 * i + 1];
    if (greatest == least) continue;
    return UserError(ExitCode::kRankFailed,
                     {.key = StrCat("step ", input.step),
                      .message = StrCat("the ranks differ in ", facts[i].name),
                      .found = StrCat("from ", least, " to ", greatest, "; ", facts[i].value, " on rank ",
                                      shards_->mesh().rank()),
                      .expected = "the same on all",
                      .hint = "all ranks must be given the same recipe and the same data"});
  }
  return absl::OkStatus();
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
