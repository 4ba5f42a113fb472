#include "engine/train/trainer.h"

#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "base/timeline.h"

namespace ftune {
namespace {

// Over a group's ranks; where it has failed, which the next step finds, this rank's own.
template <class T>
T SumOver(Communicator& group, T value) {
  const absl::StatusOr<T> sum = group.AllReduce(value);
  return sum.ok() ? *sum : value;
}

// That of the rank which needs most, and which that is.
MemoryUse LargestOver(Communicator& world, const MemoryUse& own, int& rank) {
  const int64_t greatest = world.AllReduce(own.total(), ReduceOp::kMax).value_or(own.total());
  const int64_t claim = own.total() == greatest ? world.rank() : world.size();
  rank = static_cast<int>(-world.AllReduce(-claim, ReduceOp::kMax).value_or(-world.rank()));
  MemoryUse largest = own;
  const Buffer buffer = {reinterpret_cast<std::byte*>(largest.bytes.data()), kCategories, DType::kI64, {}};
  world.Run(Call::Broadcast(buffer, rank)).IgnoreError();
  return largest;
}

absl::Status NotFinite(int64_t step, const StepOutput& output, double learning_rate) {
  return UserError(
      ExitCode::kNotFinite,
      {.key = StrCat("step ", step),
       .found = StrCat("loss ", output.loss, ", gradient norm ", output.grad_norm),
       .expected = "finite numbers",
       .hint = StrCat("lower optimizer.learning_rate (", learning_rate,
                      " at this step) or raise the warm-up, and look at the data of this step")});
}

absl::Status Overflow(int64_t step, const StepOutput& output, const LossScaler& scaler) {
  const int64_t overflows = scaler.state().overflows;
  return UserError(
      ExitCode::kNotFinite,
      {.key = StrCat("step ", step),
       .found = StrCat(scaler.dynamic() ? StrCat("gradients that overflow in ", overflows, " steps running")
                                        : std::string("gradients that overflow"),
                       ", at a loss scale of ", output.loss_scale, " (loss ", output.loss, ")"),
       .expected = "finite gradients",
       .hint = scaler.dynamic() ? "set precision.weights to bf16 or fp32, which need no loss scale"
                                : "set precision.loss_scale to dynamic or lower, or precision.weights to "
                                  "bf16 or fp32, which need no loss scale"});
}

}  // namespace

Trainer::Trainer(Backend& backend, Stream stream, Model& model, Optimizer& optimizer, BatchSource& data,
                 const DataPlan* evaluation, const TrainerOptions& options, TrainObserver& observer,
                 ModelShards* shards, Pipeline* pipeline)
    : backend_(backend),
      stream_(stream),
      data_(data),
      evaluation_(evaluation),
      options_(options),
      observer_(observer),
      step_(backend, stream, model, optimizer, options.step, shards, pipeline),
      flops_(model, step_.runner().pipeline().first_trainable()) {
  step_.runner().set_timeline(options.step.timeline);
}

absl::StatusOr<TrainSummary> Trainer::Run(const std::function<bool()>& stop) {
  absl::StatusOr<TrainSummary> summary = RunSteps(stop);
  if (!summary.ok()) step_.shards().mesh().world().Abort(summary.status());
  return summary;
}

absl::StatusOr<std::optional<StepBatches>> Trainer::NextBatches(Prefetcher& prefetcher,
                                                                const std::function<bool()>& stop,
                                                                TrainSummary& summary) {
  FTUNE_ASSIGN_OR_RETURN(std::optional<StepBatches> batches, prefetcher.Next(stop));
  enum : int64_t { kHave, kEnded, kStopped };
  const int64_t own = batches ? kHave : stop() ? kStopped : kEnded;
  const int64_t all = step_.shards().AgreeOn(own);
  FTUNE_RETURN_IF_ERROR(step_.shards().status());
  summary.stopped = all == kStopped;
  summary.data_ended = all == kEnded;
  if (all != kHave) batches.reset();
  return batches;
}

absl::StatusOr<TrainSummary> Trainer::RunSteps(const std::function<bool()>& stop) {
  TrainSummary summary;
  summary.position = data_.position();
  int64_t done = summary.position.step;
  Prefetcher prefetcher(data_);
  if (evaluation_ != nullptr && options_.eval_on_start) {
    FTUNE_RETURN_IF_ERROR(Evaluate(done, stop, summary));
  }
  while (done < total_steps()) {
    BeginTrace(done + 1);
    const double start = Timeline::Now();
    const int64_t sent_before = step_.traffic().bytes;
    backend_.ledger().ResetPeak();
    FTUNE_ASSIGN_OR_RETURN(std::optional<StepBatches> batches, NextBatches(prefetcher, stop, summary));
    const double wait = Timeline::Now() - start;
    if (!batches) break;
    const DataPosition next = batches->next;
    const double epoch = batches->epoch;
    const StepInput input = InputOf(*std::move(batches));

    FTUNE_ASSIGN_OR_RETURN(const StepOutput output, step_.Run(input, stop));
    const double seconds = Timeline::Now() - start;
    FTUNE_RETURN_IF_ERROR(EndTrace(start, wait, input.step));
    if (!output.completed) {
      summary.stopped = true;
      return summary;
    }
    if (output.overflow) {
      FTUNE_RETURN_IF_ERROR(Skip(input.step, output));
    } else if (!std::isfinite(output.loss) || !std::isfinite(output.grad_norm)) {
      return NotFinite(input.step, output, input.learning_rate);
    }
    ++done;
    epoch_ = epoch;
    summary.steps = done;
    summary.position = next;
    summary.loss = output.loss;
    if (output.overflow) {
      ++summary.skipped;
    } else if (done % options_.report_every == 0 || done == total_steps()) {
      Report(done, input, output, seconds, wait, step_.traffic().bytes - sent_before);
    }
    if (EvaluationDue(done)) {
      FTUNE_RETURN_IF_ERROR(Evaluate(done, stop, summary));
      if (OutOfPatience() && done < total_steps()) {
        summary.early = true;
        return summary;
      }
    }
  }
  // Where the data ended early, the last evaluation is still to come.
  if (summary.data_ended && evaluation_ != nullptr && !EvaluationDue(done)) {
    FTUNE_RETURN_IF_ERROR(Evaluate(done, stop, summary));
  }
  return summary;
}

absl::Status Trainer::Skip(int64_t step, const StepOutput& output) {
  const LossScaler& scaler = *step_.scaler();
  observer_.OnSkip({.step = step,
                    .loss = output.loss,
                    .loss_scale = output.loss_scale,
                    .next_loss_scale = scaler.scale()});
  return scaler.gives_up() ? Overflow(step, output, scaler) : absl::OkStatus();
}

StepInput Trainer::InputOf(StepBatches batches) const {
  StepInput input;
  input.step = batches.next.step;
  input.trained_tokens = batches.trained_tokens;
  input.learning_rate = static_cast<float>(LearningRate(options_.learning_rate, batches.next.step - 1));
  input.microbatches = std::move(batches.microbatches);
  return input;
}

void Trainer::Report(int64_t done, const StepInput& input, const StepOutput& output, double seconds,
                     double wait, int64_t sent) {
  StepReport report;
  report.step = done;
  report.total_steps = total_steps();
  report.epoch = epoch_;
  report.loss = output.loss;
  report.learning_rate = input.learning_rate;
  report.grad_norm = output.grad_norm;
  double flops = 0;
  for (const Batch& batch : input.microbatches) {
    report.tokens += batch.used_tokens;
    flops += flops_.Of(batch);
  }
  Communicator& data = step_.shards().mesh().axis(MeshAxis::kData);
  report.tokens = SumOver(data, report.tokens);
  report.trained_tokens = input.trained_tokens;
  report.step_seconds = seconds;
  report.data_wait_seconds = wait;
  report.tokens_per_second = static_cast<double>(report.tokens) / seconds;
  flops = SumOver(step_.shards().mesh().axis(MeshAxis::kPipeline), SumOver(data, flops));
  report.flops_per_second = flops / seconds;
  report.communication_bytes = sent;
  report.memory = LargestOver(step_.shards().mesh().world(), backend_.ledger().peak(), report.memory_rank);
  observer_.OnStep(report);
}

void Trainer::BeginTrace(int64_t step) {
  if (options_.trace_step != step) return;
  step_.shards().AgreeOn(0);  // so that times of several hosts, whose clocks differ, have one beginning
  options_.step.timeline->set_recording(true);
}

absl::Status Trainer::EndTrace(double start, double wait, int64_t step) {
  if (options_.trace_step != step) return absl::OkStatus();
  Timeline& timeline = *options_.step.timeline;
  timeline.Add({kStepLane, "step", start, Timeline::Now()});
  timeline.Add({kStepLane, "data", start, start + wait});
  timeline.set_recording(false);
  return observer_.OnTrace({.step = step, .start = start, .spans = timeline.Take()});
}

bool Trainer::EvaluationDue(int64_t done) const {
  if (evaluation_ == nullptr) return false;
  if (done == total_steps()) return true;
  return options_.eval_steps && done % *options_.eval_steps == 0;
}

bool Trainer::OutOfPatience() const {
  return options_.early_stopping_patience && worse_in_a_row_ >= *options_.early_stopping_patience;
}

absl::Status Trainer::Evaluate(int64_t done, const std::function<bool()>& stop, TrainSummary& summary) {
  const double start = Timeline::Now();
  const EvalResult result =
      EvaluateModel(backend_, stream_, step_.runner(), step_.shards(), *evaluation_, stop);
  FTUNE_RETURN_IF_ERROR(step_.status());
  if (result.stopped) return absl::OkStatus();
  if (!std::isfinite(result.loss)) {
    return UserError(ExitCode::kNotFinite,
                     {.key = StrCat("evaluation at step ", done),
                      .found = StrCat("loss ", result.loss),
                      .expected = "a finite number",
                      .hint = "look at the model's weights and at the evaluation data"});
  }
  summary.eval_loss = result.loss;
  const bool best = !summary.best_loss || result.loss < *summary.best_loss;
  worse_in_a_row_ = best ? 0 : worse_in_a_row_ + 1;
  if (best) {
    summary.best_loss = result.loss;
    summary.best_step = done;
  }
  return observer_.OnEval({.step = done,
                           .epoch = epoch_,
                           .loss = result.loss,
                           .tokens = result.tokens,
                           .best = best,
                           .seconds = Timeline::Now() - start});
}

EvalResult EvaluateModel(Backend& backend, Stream stream, Runner& runner, ModelShards& shards,
                         const DataPlan& plan, const std::function<bool()>& stop) {
  const Tensor sum = backend.Allocate(DType::kF64, 1, 1, Category::kBuffers);
  backend.Zero(stream, sum);
  EvalResult result;
  // To agree, all ranks wait for each other: not before each stage of a pipeline has something to do.
  const int64_t together = shards.mesh().shape().pipeline;
  int64_t begun = 0;
  for (int64_t step = 0; step < plan.total_steps(); ++step) {
    for (int64_t i = 0; i < plan.MicroBatches(step); ++i) {
      if (begun++ % together == 0 && shards.AgreeOn(stop() ? 1 : 0) != 0) {
        result.stopped = true;
        return result;
      }
      runner.Evaluate(plan.MicroBatch(step, i), sum);
    }
    result.tokens += plan.TrainedTokens(step);
  }
  shards.SumOverBatch(sum);
  double value = 0.0;
  backend.Download(stream, sum, std::as_writable_bytes(std::span(&value, 1)));
  result.loss = value / static_cast<double>(result.tokens);
  return result;
}

}  // namespace ftune
