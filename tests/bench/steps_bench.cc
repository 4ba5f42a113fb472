// Several steps one after another on ranks made equal, beside the simulator: what the schedules gain where
// stages do not wait for each other between steps. Processes of this host run the engine's own training step,
// with its update and all that ranks tell each other, but sleep for a fixed time where a model would compute.
//   steps_bench [RANKS...]      (2, 4 and 8 if none are given)
//
// Fails where the time of the steps is more than 5 % from the simulated one, or where a tensor arrives in the
// wrong place or step. Times are milliseconds a step, of five steps until all ranks know what the last came
// to. With a barrier, a rank waits for all before each update; that is what all but zb-h2 and zb-v do without
// clipping too, since they have nothing to gain. On a machine that does other work: chrt -f 5 steps_bench.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/step.h"
#include "parallel/schedule/insert_transfers.h"
#include "parallel/schedule/repeat_steps.h"
#include "parallel/schedule/simulate.h"
#include "tests/bench/equal_ranks.h"

namespace ftune {
namespace {

constexpr int kSteps = 5;
constexpr int kRounds = 5;
constexpr double kTolerance = 0.05;

std::vector<Case> CasesOf(int ranks) {
  std::vector<Case> cases;
  for (const ScheduleKind kind : {ScheduleKind::k1F1B, ScheduleKind::kZbH1, ScheduleKind::kZbH2,
                                  ScheduleKind::kZbV, ScheduleKind::kVHalf, ScheduleKind::kVMin}) {
    cases.push_back({kind, ranks, std::max(1, ChunksOf(kind)), 2 * ranks});
  }
  return cases;
}

struct Measured {
  std::vector<double> seconds;  // a step, of each round, ascending
  bool right = false;

  double median() const { return seconds[seconds.size() / 2]; }
};

// Called by all ranks.
Measured Measure(Mesh& mesh, const Case& at, bool barrier) {
  CpuBackend backend({.threads = 1});
  const std::unique_ptr<Model> model = MakeModel(backend, mesh, at, ValueMemory::kPlaced);
  const OptimizerOptions sgd = {.kind = OptimizerKind::kSgd};
  const auto shards = Must(ModelShards::Create(backend, {}, *model, mesh, {}, sgd));
  Optimizer optimizer(backend, {}, *model, sgd);
  Must(absl::StatusOr<bool>(shards->AllocateGradients().ok()));
  const auto pipeline = MakePipeline(mesh, at, *model);
  auto made = std::make_unique<SleepingWork>(backend, *model, pipeline->stages(), at.Costs());
  const SleepingWork& work = *made;
  TrainStep::Options options;
  // No norm is so great: nothing is clipped, but all wait to know it.
  options.max_grad_norm = barrier ? std::optional(1e30f) : std::nullopt;
  TrainStep step(backend, {}, *model, optimizer, options, shards.get(), pipeline.get(), std::move(made));

  const auto input_of = [&](int number) {
    StepInput input = {.step = number, .learning_rate = 1e-3f};
    for (int i = 0; i < at.microbatches; ++i) {
      // No other step of a round has such tokens.
      input.microbatches.push_back(BatchOf(number % (kSteps + 1) * at.microbatches + i));
      input.trained_tokens += kTokens;
    }
    return input;
  };
  const auto run = [&](int first, int count) {
    for (int number = first; number < first + count; ++number) {
      const StepProgress progress = Must(step.RunAhead(input_of(number), [] { return false; }));
      if (progress.kind != StepProgress::Kind::kMade) _exit(1);
    }
    Must(step.Settle());
  };
  run(1, 1);  // makes threads and touches pages
  Measured measured;
  for (int round = 0; round < kRounds; ++round) {
    constexpr double kSoon = 0.01;
    const double begin = Must(mesh.world().AllReduce(MachineTime() + kSoon, ReduceOp::kMax));
    SleepUntil(begin);
    run(2 + round * kSteps, kSteps);
    const double end = Must(mesh.world().AllReduce(MachineTime(), ReduceOp::kMax));
    measured.seconds.push_back((end - begin) / kSteps);
  }
  std::sort(measured.seconds.begin(), measured.seconds.end());
  measured.right = Must(mesh.world().AllReduce(int64_t{work.right() ? 0 : 1})) == 0;
  return measured;
}

// A step of those that follow each other without a barrier, or alone.
double SimulatedStep(const Case& at, double latency, int steps) {
  const Schedule schedule = InsertTransfers(Must(at.Source().Make(at.ranks, at.microbatches)));
  const ScheduleCosts costs = {.stages = {at.Costs()}, .transfer = latency};
  return Must(SimulateSchedule(RepeatSteps(schedule, steps), costs)).makespan / steps;
}

// Of one row; whether it is as it must be.
bool Report(const Case& at, const Measured& with, const Measured& without, double latency) {
  const double alone = SimulatedStep(at, latency, 1), many = SimulatedStep(at, latency, kSteps);
  const double expected = GainsWithoutBarrier(at.kind) ? many : alone;
  const bool ok = std::abs(with.median() / alone - 1) <= kTolerance &&
                  std::abs(without.median() / expected - 1) <= kTolerance && with.right && without.right;
  const auto range = [](const Measured& measured) {
    char text[64];
    std::snprintf(text, sizeof(text), "%.1f (%.1f to %.1f)", 1e3 * measured.median(),
                  1e3 * measured.seconds.front(), 1e3 * measured.seconds.back());
    return std::string(text);
  };
  std::printf("| %s | %d | %d | %d | %.1f | %.1f | %s | %.1f | %s | %.3f |%s\n",
              std::string(ToString(at.kind)).c_str(), at.ranks, at.chunks, at.microbatches, 1e3 * at.Ideal(),
              1e3 * alone, range(with).c_str(), 1e3 * many, range(without).c_str(),
              without.median() / with.median(),
              ok                            ? ""
              : with.right && without.right ? " WRONG"
                                            : " WRONG: a tensor arrived in the wrong place");
  std::fflush(stdout);
  return ok;
}

bool RunRank(Mesh& mesh) {
  double latency = 0.0;
  {
    CpuBackend backend({.threads = 1});
    latency = MeasureLatency(backend, mesh);
  }
  const bool leads = mesh.rank() == 0;
  if (leads) {
    std::printf("%d ranks: a transfer takes %.3f ms; load of the machine %s\n", mesh.shape().ranks(),
                1e3 * latency, LoadOfMachine().c_str());
  }
  bool ok = true;
  for (const Case& at : CasesOf(mesh.shape().ranks())) {
    const Measured with = Measure(mesh, at, true), without = Measure(mesh, at, false);
    if (leads) ok = Report(at, with, without, latency) && ok;
  }
  return ok;
}

int Main(int argc, char** argv) {
  return PrintTable(
      "| schedule | p | v | m | computes | simulated, barrier | measured, barrier | simulated, none | "
      "measured, none | none ÷ barrier |\n|---|---|---|---|---|---|---|---|---|---|\n",
      RanksOf(argc, argv), RunRank);
}

}  // namespace
}  // namespace ftune

int main(int argc, char** argv) { return ftune::Main(argc, argv); }
