// The training loop on a pipeline whose stages do not wait for each other: what it reports, in which order,
// and how it ends, is what it is where they wait.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/trainer.h"
#include "tests/unit/engine/post_validation.h"

TEST_SUITE_BEGIN("post-validation");

namespace ftune::testing {
namespace {

class Recorder final : public TrainObserver {
 public:
  void OnStep(const StepReport& report) override {
    order.push_back(report.step);
    steps.push_back(report);
  }
  void OnSkip(const SkipReport& report) override {
    order.push_back(report.step);
    skips.push_back(report);
  }
  absl::Status OnEval(const EvalReport&) override { return absl::OkStatus(); }

  std::vector<int64_t> order;
  std::vector<StepReport> steps;
  std::vector<SkipReport> skips;
};

// What is saved, which one rank alone asks for.
class Saver final : public TrainCheckpoints {
 public:
  Saver(const TinyTrainer& trainer, int64_t at) : trainer_(trainer), at_(at) {}
  bool Wanted(int64_t step) override { return step == at_; }
  bool WantsBest() const override { return false; }
  absl::Status Save(const TrainerState& state) override {
    states.push_back(state);
    bits.push_back(BitsOf(trainer_));
    return absl::OkStatus();
  }

  std::vector<TrainerState> states;
  std::vector<Bits> bits;

 private:
  const TinyTrainer& trainer_;
  int64_t at_;
};

// The packs of a run that ends after so many steps.
class ShortSource final : public BatchSource {
 public:
  ShortSource(const MeshPoint& point, int rank, int64_t steps)
      : packs_(point, rank, nullptr), steps_(steps) {}
  absl::StatusOr<std::optional<StepBatches>> Next() override {
    if (packs_.position().step == steps_) return std::nullopt;
    return packs_.Next();
  }
  absl::Status Seek(const DataPosition& position) override { return packs_.Seek(position); }
  DataPosition position() const override { return packs_.position(); }

 private:
  PackSource packs_;
  int64_t steps_;
};

struct LoopRun {
  TinyOptions options = Deep();
  MeshPoint point = {
      .shape = {.data = 2, .pipeline = 2}, .accumulation = 3, .schedule = SourceOf(ScheduleKind::kZbH2)};
  double learning_rate = 0.01;
  int64_t steps = 6;         // of the run
  int64_t data_steps = 100;  // that there is data for
  int64_t save_at = 0;       // step behind which rank 2 wants to save; 0: none
  int64_t stop_after = 0;    // reports of rank 1, which is to stop then; 0: never
};

struct LoopResult {
  Recorder seen;
  absl::StatusOr<TrainSummary> summary = TrainSummary();
  std::vector<TrainerState> saved_states;
  std::vector<Bits> saved;
  Bits end;
};

std::vector<LoopResult> RunLoop(const LoopRun& run) {
  std::vector<LoopResult> ranks(run.point.shape.ranks());
  RunRanks(run.point.shape, [&](Mesh& mesh) {
    mesh.set_timeout(absl::Seconds(60));
    TinyOptions options = run.options;
    options.schedule = run.point.schedule;
    const auto backend = MakeCpu();
    TinyTrainer made(*backend, options, {}, &mesh);
    made.step.reset();
    ShortSource batches(run.point, mesh.Coordinate(MeshAxis::kData), run.data_steps);
    LoopResult& own = ranks[mesh.rank()];
    Saver saver(made, mesh.rank() == 2 ? run.save_at : 0);
    Trainer trainer(*backend, Stream(), *made.model, *made.optimizer, batches, nullptr,
                    {.step = options.step,
                     .learning_rate = {.schedule = LrSchedule::kLinear,
                                       .peak = run.learning_rate,
                                       .total_steps = run.steps},
                     .checkpoints = &saver},
                    own.seen, made.shards.get(), made.pipeline.get());
    CHECK(trainer.why_barrier().empty() == !options.step.max_grad_norm);
    own.summary = trainer.Run([&] {
      return run.stop_after > 0 && mesh.rank() == 1 &&
             static_cast<int64_t>(own.seen.order.size()) >= run.stop_after;
    });
    own.saved_states = saver.states;
    own.saved = saver.bits;
    own.end = BitsOf(made);
  });
  return ranks;
}

LoopRun Waiting(LoopRun run) {
  run.options.step.max_grad_norm = 1e30f;
  return run;
}

void CheckSameReports(const Recorder& got, const Recorder& want) {
  CHECK(got.order == want.order);
  REQUIRE(got.steps.size() == want.steps.size());
  for (size_t i = 0; i < got.steps.size(); ++i) {
    const StepReport &a = got.steps[i], &b = want.steps[i];
    CHECK(a.step == b.step);
    CHECK(SameNumber(a.loss, b.loss));
    CHECK(SameNumber(a.grad_norm, b.grad_norm));
    CHECK(a.learning_rate == b.learning_rate);
    CHECK(a.epoch == b.epoch);
    CHECK(a.tokens == b.tokens);
    CHECK(a.tokens > 0);
    CHECK(a.trained_tokens == b.trained_tokens);
    CHECK(a.flops_per_second * a.step_seconds ==
          doctest::Approx(b.flops_per_second * b.step_seconds).epsilon(1e-9));
    CHECK(a.step_seconds > 0.0);
    CHECK(a.data_wait_seconds >= 0.0);
    CHECK(a.communication_bytes > 0);
    CHECK(a.memory.total() > 0);
  }
  REQUIRE(got.skips.size() == want.skips.size());
  for (size_t i = 0; i < got.skips.size(); ++i) {
    const SkipReport &a = got.skips[i], &b = want.skips[i];
    CHECK(a.step == b.step);
    CHECK(SameNumber(a.loss, b.loss));
    CHECK(a.loss_scale == b.loss_scale);
    CHECK(a.next_loss_scale == b.next_loss_scale);
  }
}

// → the ranks' results, which are those of ranks that wait.
std::vector<LoopResult> CheckLoop(const LoopRun& run) {
  std::vector<LoopResult> got = RunLoop(run);
  const std::vector<LoopResult> want = RunLoop(Waiting(run));
  for (size_t rank = 0; rank < got.size(); ++rank) {
    CAPTURE(rank);
    CHECK(got[rank].end == want[rank].end);
    REQUIRE(got[rank].summary.ok() == want[rank].summary.ok());
    CHECK(got[rank].summary.status().message() == want[rank].summary.status().message());
    // Where one rank ends with an error, others may hear of that before they can report the step.
    if (!got[rank].summary.ok()) continue;
    CheckSameReports(got[rank].seen, want[rank].seen);
    const TrainSummary &a = *got[rank].summary, &b = *want[rank].summary;
    CHECK(a.steps() == b.steps());
    CHECK(a.state.skipped == b.state.skipped);
    CHECK(a.state.loss == b.state.loss);
    CHECK(a.stopped == b.stopped);
    CHECK(a.data_ended == b.data_ended);
  }
  return got;
}

TEST_CASE("every step is reported once and in order, with its own numbers") {
  for (const LoopResult& rank : CheckLoop({})) {
    CHECK(rank.seen.order == std::vector<int64_t>{1, 2, 3, 4, 5, 6});
  }
}

TEST_CASE("what is saved behind a step is that step's, though one rank alone asks for it") {
  for (const bool scaled : {false, true}) {
    LoopRun run = {.save_at = 3};
    if (scaled) {
      run.options.trainable_dtype = DType::kF16;
      run.options.step.loss_scaler = LossScalerOptions{.initial = 1024.0, .growth_interval = 1};
    }
    const std::vector<LoopResult> got = CheckLoop(run), want = RunLoop(Waiting(run));
    for (size_t rank = 0; rank < got.size(); ++rank) {
      CAPTURE(rank);
      CHECK(got[rank].saved == want[rank].saved);
      REQUIRE(got[rank].saved_states.size() == 1);
      REQUIRE(want[rank].saved_states.size() == 1);
      const TrainerState &a = got[rank].saved_states[0], &b = want[rank].saved_states[0];
      CHECK(a.position.step == 3);
      CHECK(b.position.step == 3);
      CHECK(a.updates == b.updates);
      CHECK(a.loss == b.loss);
      REQUIRE(a.loss_scale.has_value() == scaled);
      if (scaled) CHECK(a.loss_scale->scale == b.loss_scale->scale);
    }
  }
}

TEST_CASE("data that ends early ends the run behind its last step") {
  for (const LoopResult& rank : CheckLoop({.data_steps = 4})) {
    CHECK(rank.seen.order == std::vector<int64_t>{1, 2, 3, 4});
    CHECK(rank.summary->data_ended);
  }
}

TEST_CASE("steps that overflow are skipped where they are") {
  LoopRun run;
  run.options.trainable_dtype = DType::kF16;
  // The first overflows; then it backs off, and grows until it overflows again.
  run.options.step.loss_scaler = LossScalerOptions{
      .initial = 1e40, .growth = 1e20, .backoff = 1e-38, .growth_interval = 1, .hysteresis = 1};
  for (const LoopResult& rank : CheckLoop(run)) {
    CHECK(rank.summary->state.skipped >= 2);
    CHECK(rank.summary->state.skipped < 6);
    CHECK(rank.seen.order == std::vector<int64_t>{1, 2, 3, 4, 5, 6});
  }
}

TEST_CASE("a loss scale that never helps ends the run at the same step") {
  LoopRun run;
  run.options.trainable_dtype = DType::kF16;
  run.options.step.loss_scaler = LossScalerOptions{.constant = 1e40};
  for (const LoopResult& rank : CheckLoop(run)) {
    CHECK(rank.summary.status().message().find("step 1") != std::string::npos);
    CHECK(rank.seen.steps.empty());
  }
}

TEST_CASE("a loss that is not a number ends the run, with the weights of the step before it") {
  // The first update ruins the weights.
  for (const LoopResult& rank : CheckLoop({.learning_rate = 1e36})) {
    CHECK(rank.summary.status().message().find("step 2") != std::string::npos);
    CHECK(rank.seen.order == std::vector<int64_t>{1});
  }
}

TEST_CASE("a rank that is to stop ends all at one step, whose report is the last") {
  std::vector<LoopResult> ranks = RunLoop({.steps = 1000, .stop_after = 3});
  REQUIRE(ranks[0].summary.ok());
  const int64_t steps = ranks[0].summary->steps();
  // Its third report is behind the third step, one step later: it says so as it begins the fourth or fifth.
  CHECK(steps >= 4);
  CHECK(steps <= 6);
  for (const LoopResult& rank : ranks) {
    REQUIRE(rank.summary.ok());
    CHECK(rank.summary->stopped);
    CHECK(rank.summary->steps() == steps);
    CHECK(rank.summary->state.position.step == steps);
    REQUIRE(static_cast<int64_t>(rank.seen.order.size()) == steps);
    for (int64_t step = 1; step <= steps; ++step) CHECK(rank.seen.order[step - 1] == step);
  }
}

}  // namespace
}  // namespace ftune::testing

TEST_SUITE_END();
