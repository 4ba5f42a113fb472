#include "engine/train/step.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "base/error.h"
#include "data/loader/batch_hash.h"
#include "parallel/comm/gather_records.h"

namespace ftune {
namespace {

enum Finiteness : int64_t { kFinite, kGradientsNot, kLossNot };

Finiteness FinitenessOf(double loss, double squares) {
  return !std::isfinite(loss) ? kLossNot : !std::isfinite(squares) ? kGradientsNot : kFinite;
}

Finiteness FinitenessOf(const StepOutput& output) { return FinitenessOf(output.loss, output.grad_norm); }

// Where any rank has something that is not finite, all have.
void SpoilAs(Finiteness worst, StepOutput& output) {
  if (worst == FinitenessOf(output)) return;
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  (worst == kLossNot ? output.loss : output.grad_norm) = kNaN;
}

std::vector<double> Each(const std::vector<StepRecord>& records, double StepRecord::*field) {
  std::vector<double> values;
  for (const StepRecord& record : records) values.push_back(record.*field);
  return values;
}

bool AnyOf(const std::vector<StepRecord>& records, int64_t StepRecord::*field) {
  return std::any_of(records.begin(), records.end(), [&](const StepRecord& r) { return r.*field != 0; });
}

bool AllOf(const std::vector<StepRecord>& records, int64_t StepRecord::*field) {
  return std::all_of(records.begin(), records.end(), [&](const StepRecord& r) { return r.*field != 0; });
}

}  // namespace

TrainStep::TrainStep(Backend& backend, Stream stream, Model& model, Optimizer& optimizer,
                     const Options& options, ModelShards* shards, Pipeline* pipeline,
                     std::unique_ptr<StageWork> work)
    : backend_(backend),
      stream_(stream),
      optimizer_(optimizer),
      options_(options),
      own_shards_(shards != nullptr ? nullptr : ModelShards::Single(backend, stream, model)),
      shards_(shards != nullptr ? shards : own_shards_.get()),
      runner_(backend, stream, model, options.recompute, pipeline, std::move(work)),
      scaler_(options.loss_scaler ? std::optional<LossScaler>(*options.loss_scaler) : std::nullopt),
      loss_(backend.Allocate(DType::kF64, 1, 1, Category::kBuffers)),
      sum_of_squares_(backend.Allocate(DType::kF64, 1, 1, Category::kBuffers)),
      gradient_scale_(backend.Allocate(1, 1, Category::kBuffers)) {
  const Pipeline& place = runner_.pipeline();
  if (!place.GainsWithoutBarrier()) return;
  // A stage without trained parameters has nothing on disk; it does as the others do.
  const bool on_disk = shards_->AgreeOn(optimizer.disk() != nullptr ? 1 : 0) != 0;
  why_barrier_ = WhyBarrier(place, {options.max_grad_norm, on_disk, shards_->compressed() != nullptr});
  if (why_barrier_.empty()) LeaveBarrier();
}

void TrainStep::LeaveBarrier() {
  Communicator& world = shards_->mesh().world();
  std::vector<int> all(world.size());
  std::iota(all.begin(), all.end(), 0);
  absl::StatusOr<std::unique_ptr<Communicator>> group = world.Split(all);
  if (!group.ok()) return world.Abort(group.status());
  exchange_ = std::make_unique<StepExchange>(shards_->mesh().shape(), *std::move(group), stream_);
  optimistic_.emplace(backend_, stream_, optimizer_, *shards_, scaler());
}

absl::Status TrainStep::status() const {
  FTUNE_RETURN_IF_ERROR(shards_->status());
  return runner_.pipeline().status();
}

CommTraffic TrainStep::traffic() const {
  CommTraffic total = shards_->traffic();
  total += runner_.pipeline().traffic();
  if (exchange_) total += exchange_->traffic();
  return total;
}

absl::StatusOr<StepOutput> TrainStep::Run(const StepInput& input, const std::function<bool()>& stop) {
  assert(!open_);
  FTUNE_ASSIGN_OR_RETURN(const StepProgress progress, RunAhead(input, stop));
  if (progress.kind == StepProgress::Kind::kStopped) return BeginOutput(input);
  if (progress.settled) return *progress.settled;
  FTUNE_ASSIGN_OR_RETURN(const std::optional<StepOutput> settled, Settle());
  return *settled;
}

absl::StatusOr<StepProgress> TrainStep::RunAhead(const StepInput& input, const std::function<bool()>& stop) {
  // Who looks at the gradients before the update looks at those that all have agreed on.
  if (optimistic_ && !input.before_update) {
    absl::StatusOr<StepProgress> progress = RunOptimistically(input, stop);
    if (!progress.ok()) TakeBackOpen();
    return progress;
  }
  assert(!open_);
  FTUNE_ASSIGN_OR_RETURN(StepOutput output, RunWithBarrier(input, stop));
  if (!output.completed) return StepProgress{.kind = StepProgress::Kind::kStopped};
  return StepProgress{.settled = std::move(output)};
}

absl::StatusOr<StepOutput> TrainStep::RunWithBarrier(const StepInput& input,
                                                     const std::function<bool()>& stop) {
  Communicator& world = shards_->mesh().world();
  StepOutput output = BeginOutput(input);
  FTUNE_ASSIGN_OR_RETURN(const std::vector<Action>* actions, ActionsOf(input));
  FTUNE_RETURN_IF_ERROR(AgreeOnFacts(shards_->mesh(), stream_, FactsOf(input)));
  FTUNE_ASSIGN_OR_RETURN(output.completed, MakeGradients(input, *actions, output.loss_scale, [&] {
                           return shards_->AgreeOn(stop() ? 1 : 0) != 0;
                         }));
  if (!output.completed) return output;
  runner_.FinishSends();

  backend_.Zero(stream_, sum_of_squares_);
  shards_->AddSquares(sum_of_squares_);
  FTUNE_RETURN_IF_ERROR(Validate(input, output));
  if (FinitenessOf(output) == kFinite) {
    SetGradientScale(output.loss_scale);
    FTUNE_RETURN_IF_ERROR(Update(input));
  }
  std::vector<StepCosts> costs;
  FTUNE_RETURN_IF_ERROR(world.Run(GatherRecords(world, CostsOf(input), stream_, costs)));
  output.costs = TotalOf(shards_->mesh().shape(), world.rank(), costs);
  return output;
}

absl::StatusOr<StepProgress> TrainStep::RunOptimistically(const StepInput& input,
                                                          const std::function<bool()>& stop) {
  StepProgress progress;
  if (std::exchange(stop_agreed_, false)) return StepProgress{.kind = StepProgress::Kind::kStopped};
  FTUNE_ASSIGN_OR_RETURN(const std::vector<Action>* actions, ActionsOf(input));
  StepRecord own = RecordOf(FactsOf(input));
  own.stops = stop() ? 1 : 0;
  own.saves = input.wants_save ? 1 : 0;
  own.has_next = input.has_next ? 1 : 0;
  exchange_->Start(own);
  const double loss_scale = BeginOutput(input).loss_scale;
  const absl::StatusOr<bool> made = MakeGradients(input, *actions, loss_scale, [] { return false; });

  // A stage whose gradients have all come knows that every rank has begun this step: it does not wait here.
  // One without a backward waits until then.
  const absl::StatusOr<std::vector<StepRecord>> records = exchange_->Finish();
  // Ranks that are at different steps fail in many ways, of which this is the reason.
  FTUNE_RETURN_IF_ERROR(records.status());
  FTUNE_RETURN_IF_ERROR(made.status());
  stop_agreed_ = AnyOf(*records, &StepRecord::stops);
  progress.any_wants_save = AnyOf(*records, &StepRecord::saves);
  progress.all_have_next = AllOf(*records, &StepRecord::has_next);
  if (open_) {
    progress.settled = SettleOpen(*records);
    if (FinitenessOf(*progress.settled) != kFinite) {
      progress.kind = StepProgress::Kind::kAgain;
      return progress;
    }
  }

  // Nothing is clipped, so no norm is needed.
  backend_.Zero(stream_, sum_of_squares_);
  SetGradientScale(loss_scale);
  shards_->AddSquares(sum_of_squares_);
  {
    const TimeScope phase(options_.timeline, kStepLane, "update");
    const TimeScope time(options_.timeline, kComputeLane, "update");
    FTUNE_RETURN_IF_ERROR(optimistic_->Apply(input.learning_rate, gradient_scale_));
  }
  open_ = OpenStep{input.step, input.trained_tokens, loss_scale, CostsOf(input)};
  return progress;
}

absl::StatusOr<std::optional<StepOutput>> TrainStep::Settle() {
  if (!open_) return std::nullopt;
  exchange_->Start(RecordOf({.step = open_->step}));
  runner_.FinishSends();
  const absl::StatusOr<std::vector<StepRecord>> records = exchange_->Finish();
  if (!records.ok()) TakeBackOpen();
  FTUNE_RETURN_IF_ERROR(records.status());
  return SettleOpen(*records);
}

StepFacts TrainStep::FactsOf(const StepInput& input) const {
  const MeshShape& shape = shards_->mesh().shape();
  const bool shared = shape.ranks() > shape.data;
  return {.step = input.step,
          .trained_tokens = input.trained_tokens,
          .microbatches = std::ssize(input.microbatches),
          .schedule = runner_.pipeline().fingerprint(),
          .batches = shared ? static_cast<int64_t>(HashOf(input.microbatches)) : 0};
}

StepOutput TrainStep::BeginOutput(const StepInput& input) const {
  return {.step = input.step, .loss_scale = scaler_ ? scaler_->scale() : 1.0};
}

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
  const TimeScope time(options_.timeline, kStepLane, "sum gradients");
  FTUNE_RETURN_IF_ERROR(shards_->FinishGradients());
  return completed;
}

absl::Status TrainStep::Update(const StepInput& input) {
  const TimeScope phase(options_.timeline, kStepLane, "update");
  const TimeScope time(options_.timeline, kComputeLane, "update");
  if (input.before_update) FTUNE_RETURN_IF_ERROR(input.before_update());
  FTUNE_RETURN_IF_ERROR(optimizer_.Step(backend_, stream_, input.learning_rate, gradient_scale_));
  shards_->PublishValues();
  return absl::OkStatus();
}

absl::Status TrainStep::Validate(const StepInput& input, StepOutput& output) {
  shards_->SumOverShards(sum_of_squares_);
  shards_->SumOverBatch(loss_);
  output.loss = ReadScalar(loss_) / static_cast<double>(input.trained_tokens);
  output.grad_norm = std::sqrt(ReadScalar(sum_of_squares_)) / output.loss_scale;
  SpoilAs(static_cast<Finiteness>(shards_->AgreeOn(FinitenessOf(output))), output);
  FTUNE_RETURN_IF_ERROR(shards_->status());
  if (!scaler_ || !std::isfinite(output.loss)) return absl::OkStatus();
  output.overflow = !std::isfinite(output.grad_norm);
  scaler_->Update(output.overflow);
  return absl::OkStatus();
}

StepRecord TrainStep::RecordOf(const StepFacts& facts) {
  StepRecord record = {.facts = facts};
  if (!open_) return record;
  record.loss = ReadScalar(loss_);
  record.squares = ReadScalar(sum_of_squares_);
  record.costs = open_->costs;
  return record;
}

StepOutput TrainStep::SettleOpen(const std::vector<StepRecord>& records) {
  const OpenStep open = *std::exchange(open_, std::nullopt);
  const int rank = shards_->mesh().rank();
  const std::vector<double> losses = shards_->SumOverBatch(Each(records, &StepRecord::loss));
  const std::vector<double> squares = shards_->SumOverShards(Each(records, &StepRecord::squares));
  std::vector<StepCosts> costs;
  for (const StepRecord& record : records) costs.push_back(record.costs);
  StepOutput output = {.step = open.step,
                       .completed = true,
                       .loss = losses[rank] / static_cast<double>(open.trained_tokens),
                       .grad_norm = std::sqrt(squares[rank]) / open.loss_scale,
                       .loss_scale = open.loss_scale,
                       .costs = TotalOf(shards_->mesh().shape(), rank, costs)};
  Finiteness worst = kFinite;
  for (size_t i = 0; i < losses.size(); ++i) worst = std::max(worst, FinitenessOf(losses[i], squares[i]));
  SpoilAs(worst, output);
  if (worst == kFinite) return output;
  optimistic_->TakeBack();
  output.overflow = scaler_ && worst == kGradientsNot;
  if (output.overflow) scaler_->Update(true);
  return output;
}

void TrainStep::TakeBackOpen() {
  if (!std::exchange(open_, std::nullopt)) return;
  optimistic_->TakeBack();
}

void TrainStep::SetGradientScale(double loss_scale) {
  backend_.ClipScale(stream_, sum_of_squares_, loss_scale,
                     options_.max_grad_norm.value_or(std::numeric_limits<float>::infinity()),
                     gradient_scale_);
}

StepCosts TrainStep::CostsOf(const StepInput& input) const {
  StepCosts costs = {.flops = input.flops, .memory = backend_.ledger().peak()};
  for (const Batch& batch : input.microbatches) costs.tokens += batch.used_tokens;
  return costs;
}

double TrainStep::ReadScalar(const Tensor& scalar) {
  double value = 0.0;
  backend_.Download(stream_, scalar, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace ftune
