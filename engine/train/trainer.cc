#include "engine/train/trainer.h"

#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "base/timeline.h"
#include "engine/train/run_end.h"

namespace ftune {
namespace {

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
      optimizer_(optimizer),
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
  std::optional<StepBatches> batches;
  {
    const TimeScope time(options_.step.timeline, kStepLane, kDataMark);
    FTUNE_ASSIGN_OR_RETURN(batches, prefetcher.Next(stop));
  }
  if (all_have_next_) return batches;
  enum : int64_t { kHave, kHaveAndSave, kEnded, kStopped };
  const int64_t own = batches ? (save_wanted_ ? kHaveAndSave : kHave) : stop() ? kStopped : kEnded;
  const int64_t all = step_.shards().AgreeOn(own);
  FTUNE_RETURN_IF_ERROR(step_.shards().status());
  summary.stopped = all == kStopped;
  summary.data_ended = all == kEnded;
  if (all > kHaveAndSave) batches.reset();
  save_wanted_ = all == kHaveAndSave;
  return batches;
}

void Trainer::Begin(TrainSummary& summary) {
  if (options_.resume) {
    summary.state = *options_.resume;
    if (step_.scaler() != nullptr && summary.state.loss_scale) {
      step_.scaler()->set_state(*summary.state.loss_scale);
    }
  }
  summary.state.position = data_.position();
}

absl::StatusOr<TrainSummary> Trainer::RunSteps(const std::function<bool()>& stop) {
  TrainSummary summary;
  Begin(summary);
  int64_t done = summary.steps();
  Prefetcher prefetcher(data_);
  // A run that was interrupted in an evaluation makes it first.
  const bool owed = done > 0 && EvaluationDue(done) && summary.state.eval_step != done;
  if (evaluation_ != nullptr && (owed || (options_.eval_on_start && !options_.resume))) {
    FTUNE_RETURN_IF_ERROR(Evaluate(done, stop, summary));
  }
  // A run that was interrupted between its last evaluation and its end has nothing more to learn.
  summary.early = OutOfPatience(summary);
  if (summary.early) return summary;
  while (done < total_steps()) {
    BeginTrace(done + 1);
    const double start = Timeline::Now();
    std::optional<TimeScope> time(std::in_place, options_.step.timeline, kStepLane, kStepMark, done + 1);
    const int64_t sent_before = step_.traffic().bytes;
    backend_.ledger().ResetPeak();
    // To ask who has batches all ranks wait for each other.
    if (!all_have_next_) FTUNE_RETURN_IF_ERROR(Settle(summary));
    const double asked = Timeline::Now();
    save_wanted_ = options_.checkpoints != nullptr && options_.checkpoints->Wanted(done + 1);
    FTUNE_ASSIGN_OR_RETURN(std::optional<StepBatches> batches, NextBatches(prefetcher, stop, summary));
    const double wait = Timeline::Now() - asked;
    if (!batches) break;
    MadeStep& made = made_.emplace_back();
    made.epoch = batches->epoch;
    made.next = batches->next;
    made.wait = wait;
    const StepInput input = InputOf(*std::move(batches), prefetcher.Ready());
    made.step = input.step;
    made.trained_tokens = input.trained_tokens;
    made.learning_rate = input.learning_rate;
    made.start = start;
    made.sent_before = sent_before;

    FTUNE_ASSIGN_OR_RETURN(const bool went_on, MakeStep(input, stop, summary));
    time.reset();
    FTUNE_RETURN_IF_ERROR(EndTrace(start, input.step));
    if (!went_on) {
      FTUNE_RETURN_IF_ERROR(Settle(summary));
      summary.stopped = true;
      return summary;
    }
    FTUNE_RETURN_IF_ERROR(AfterStep(++done, stop, summary));
    if (summary.early) return summary;
  }
  FTUNE_RETURN_IF_ERROR(Settle(summary));
  // Where the data ended early, the last evaluation is still to come.
  if (summary.data_ended && evaluation_ != nullptr && summary.state.eval_step != done) {
    FTUNE_RETURN_IF_ERROR(Evaluate(done, stop, summary));
  }
  return summary;
}

absl::Status Trainer::AfterStep(int64_t done, const std::function<bool()>& stop, TrainSummary& summary) {
  bool save = save_wanted_;
  if (EvaluationDue(done)) {
    FTUNE_RETURN_IF_ERROR(Settle(summary));
    FTUNE_RETURN_IF_ERROR(Evaluate(done, stop, summary));
    summary.early = OutOfPatience(summary);
    const bool best = summary.state.eval_step == done && summary.state.best_step == done;
    save = save || (best && options_.checkpoints != nullptr && options_.checkpoints->WantsBest());
  }
  if (!save) return absl::OkStatus();
  FTUNE_RETURN_IF_ERROR(Settle(summary));
  const TimeScope time(options_.step.timeline, kStepLane, "save");
  return options_.checkpoints->Save(summary.state);
}

absl::StatusOr<bool> Trainer::MakeStep(const StepInput& input, const std::function<bool()>& stop,
                                       TrainSummary& summary) {
  for (;;) {
    FTUNE_ASSIGN_OR_RETURN(const StepProgress progress, step_.RunAhead(input, stop));
    all_have_next_ = progress.all_have_next;
    save_wanted_ = save_wanted_ || progress.any_wants_save;
    if (progress.kind == StepProgress::Kind::kStopped) {
      made_.pop_back();
      return false;
    }
    made_.back().seconds = Timeline::Now() - made_.back().start;
    made_.back().sent = step_.traffic().bytes - made_.back().sent_before;
    if (progress.settled) FTUNE_RETURN_IF_ERROR(OnSettled(*progress.settled, summary));
    if (progress.kind == StepProgress::Kind::kMade) return true;
  }
}

absl::Status Trainer::Settle(TrainSummary& summary) {
  FTUNE_ASSIGN_OR_RETURN(const std::optional<StepOutput> output, step_.Settle());
  return output ? OnSettled(*output, summary) : absl::OkStatus();
}

absl::Status Trainer::OnSettled(const StepOutput& output, TrainSummary& summary) {
  const MadeStep made = std::move(made_.front());
  made_.pop_front();
  if (output.overflow) {
    FTUNE_RETURN_IF_ERROR(Skip(made.step, output));
  } else if (!std::isfinite(output.loss) || !std::isfinite(output.grad_norm)) {
    return NotFinite(made.step, output, made.learning_rate);
  }
  TrainerState& state = summary.state;
  state.position = made.next;
  state.epoch = made.epoch;
  state.updates = optimizer_.updates();
  state.loss = output.loss;
  if (step_.scaler() != nullptr) state.loss_scale = step_.scaler()->state();
  if (output.overflow) {
    ++state.skipped;
  } else if (made.step % options_.report_every == 0 || made.step == total_steps()) {
    Report(made, output);
  }
  return absl::OkStatus();
}

absl::Status Trainer::Skip(int64_t step, const StepOutput& output) {
  const LossScaler& scaler = *step_.scaler();
  observer_.OnSkip({.step = step,
                    .loss = output.loss,
                    .loss_scale = output.loss_scale,
                    .next_loss_scale = scaler.scale()});
  return scaler.gives_up() ? Overflow(step, output, scaler) : absl::OkStatus();
}

StepInput Trainer::InputOf(StepBatches batches, bool has_next) const {
  StepInput input;
  input.step = batches.next.step;
  input.trained_tokens = batches.trained_tokens;
  input.learning_rate = static_cast<float>(LearningRate(options_.learning_rate, batches.next.step - 1));
  input.microbatches = std::move(batches.microbatches);
  for (const Batch& batch : input.microbatches) input.flops += flops_.Of(batch);
  input.wants_save = save_wanted_;
  input.has_next = has_next;
  return input;
}

void Trainer::Report(const MadeStep& made, const StepOutput& output) {
  StepReport report;
  report.step = made.step;
  report.total_steps = total_steps();
  report.epoch = made.epoch;
  report.loss = output.loss;
  report.learning_rate = made.learning_rate;
  report.grad_norm = output.grad_norm;
  report.tokens = output.costs.tokens;
  report.trained_tokens = made.trained_tokens;
  report.step_seconds = made.seconds;
  report.data_wait_seconds = made.wait;
  report.tokens_per_second = static_cast<double>(report.tokens) / made.seconds;
  report.flops_per_second = output.costs.flops / made.seconds;
  report.communication_bytes = made.sent;
  report.memory = output.costs.memory;
  report.memory_rank = output.costs.memory_rank;
  observer_.OnStep(report);
}

void Trainer::BeginTrace(int64_t step) {
  if (options_.trace_step != step) return;
  step_.shards().AgreeOn(0);  // so that times of several hosts, whose clocks differ, have one beginning
  options_.step.timeline->set_recording(true);
}

absl::Status Trainer::EndTrace(double start, int64_t step) {
  if (options_.trace_step != step) return absl::OkStatus();
  Timeline& timeline = *options_.step.timeline;
  timeline.set_recording(false);
  return observer_.OnTrace({.step = step, .start = start, .spans = timeline.Take()});
}

bool Trainer::EvaluationDue(int64_t done) const {
  return evaluation_ != nullptr && ftune::EvaluationDue(options_, done);
}

bool Trainer::OutOfPatience(const TrainSummary& summary) const {
  return EndOf(options_, evaluation_ != nullptr, summary.state) == RunEnd::kOutOfPatience;
}

absl::Status Trainer::Evaluate(int64_t done, const std::function<bool()>& stop, TrainSummary& summary) {
  const double start = Timeline::Now();
  const TimeScope time(options_.step.timeline, kStepLane, "evaluation");
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
  TrainerState& state = summary.state;
  state.eval_loss = result.loss;
  state.eval_step = done;
  const bool best = !state.best_loss || result.loss < *state.best_loss;
  state.worse_in_a_row = best ? 0 : state.worse_in_a_row + 1;
  if (best) {
    state.best_loss = result.loss;
    state.best_step = done;
  }
  return observer_.OnEval({.step = done,
                           .epoch = state.epoch,
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
