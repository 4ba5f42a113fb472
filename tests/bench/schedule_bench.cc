// Step times of the pipeline schedules on ranks made equal, beside the simulator's and the closed formulas:
// processes of this host that run a step with the Runner, a Pipeline and its links, but sleep for a fixed
// time where a model would compute. Sleeping ranks need little of a core: two cores show eight ranks.
//   schedule_bench [RANKS...]      (2, 4 and 8 if none are given)
//
// Fails where a measured step is more than 5 % from the simulated one, where a rank ever keeps the
// activations of more or fewer stage-microbatches than the checker says, where a tensor arrives in the wrong
// place, or where ZB-H1 is not shorter than 1F1B by 2(p-1)W, within 5 %.
//
// On a machine that does other work, give it the cores when its ranks wake: chrt -f 5 schedule_bench.
//
// Times are milliseconds. "simulated" counts the time that a transfer was measured to take, between two ranks
// that wait for it; "bubble" is the measured step without what a rank computes; "formula" is the bubble in
// closed form, with transfers that take no time (the papers that parallel/schedule/schedule.h names).
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/pipeline/runner.h"
#include "parallel/schedule/check.h"
#include "parallel/schedule/insert_transfers.h"
#include "parallel/schedule/simulate.h"
#include "tests/bench/equal_ranks.h"

namespace ftune {
namespace {

constexpr int kSteps = 7;
constexpr double kTolerance = 0.05;

std::vector<Case> CasesOf(int ranks) {
  std::vector<int> counts = {2 * ranks};
  if (ranks == 4) counts = {8, 6, 3};  // also one that the ranks do not divide, and fewer than ranks
  std::vector<Case> cases;
  for (const int microbatches : counts) {
    for (const ScheduleKind kind : ScheduleKinds()) {
      const bool two = kind == ScheduleKind::kInterleaved || kind == ScheduleKind::kZbV ||
                       kind == ScheduleKind::kVHalf || kind == ScheduleKind::kVMin;
      cases.push_back({kind, ranks, two ? 2 : 1, microbatches});
    }
  }
  return cases;
}

// Where there is a closed one for equal costs.
std::optional<double> BubbleFormula(const Case& at) {
  const auto [forward, input, weight] = at.Costs();
  const int others = at.ranks - 1;
  switch (at.kind) {
    case ScheduleKind::kGPipe:
    case ScheduleKind::k1F1B:
      return others * (forward + input + weight);
    case ScheduleKind::kInterleaved:
      if (at.microbatches < at.ranks) return std::nullopt;
      return others * (forward + input + weight);  // of a chunk: (p - 1)(F + B + W) / v
    case ScheduleKind::kZbH1:
      if (at.microbatches < at.ranks) return std::nullopt;
      return others * (forward + input - weight);
    case ScheduleKind::kZbH2:
    case ScheduleKind::kZbV:
      if (at.microbatches < 2 * at.ranks - 1) return std::nullopt;
      return others * forward;  // ranks begin one after another, and none idles
    case ScheduleKind::kVHalf:
    case ScheduleKind::kVMin:
      return std::nullopt;
  }
  return std::nullopt;
}

struct Measured {
  std::vector<double> seconds;  // of each step, ascending
  std::vector<int64_t> live;    // most stage-microbatches, by rank
  bool right = false;

  double median() const { return seconds[seconds.size() / 2]; }
};

// One rank's side of everything; all ranks call the same.
class RankBench {
 public:
  explicit RankBench(Mesh& mesh) : mesh_(mesh), world_(mesh.world()), backend_({.threads = 1}) {}

  double MeasureTransfer() { return MeasureLatency(backend_, mesh_); }

  Measured Measure(const Case& at) {
    const std::unique_ptr<Model> model = MakeModel(backend_, mesh_, at, ValueMemory::kOwn);
    const auto pipeline = MakePipeline(mesh_, at, *model);
    auto made = std::make_unique<SleepingWork>(backend_, *model, pipeline->stages(), at.Costs());
    const SleepingWork& work = *made;
    Runner runner(backend_, {}, *model, {}, pipeline.get(), std::move(made));
    const std::vector<Action>& actions = *Must(pipeline->Actions(at.microbatches));
    std::vector<Batch> batches;
    for (int i = 0; i < at.microbatches; ++i) batches.push_back(BatchOf(i));

    Measured measured;
    int64_t live = 0;
    for (int i = 0; i <= kSteps; ++i) {
      backend_.ledger().ResetPeak();
      constexpr double kSoon = 0.01;
      const double begin = Must(world_.AllReduce(MachineTime() + kSoon, ReduceOp::kMax));
      SleepUntil(begin);
      if (!runner.Run(actions, batches, {}, [] { return false; })) Fail(pipeline->status());
      runner.FinishSends();
      const double end = Must(world_.AllReduce(MachineTime(), ReduceOp::kMax));
      live = std::max(live, backend_.ledger().peak()[Category::kActivations] / SleepingWork::kKeptBytes);
      if (i > 0) measured.seconds.push_back(end - begin);  // the first one makes threads and touches pages
    }
    std::sort(measured.seconds.begin(), measured.seconds.end());
    measured.right = Must(world_.AllReduce(int64_t{work.right() ? 0 : 1})) == 0;
    for (int rank = 0; rank < world_.size(); ++rank) {
      measured.live.push_back(Must(world_.AllReduce(rank == world_.rank() ? live : 0)));
    }
    return measured;
  }

 private:
  [[noreturn]] static void Fail(const absl::Status& status) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    _exit(1);
  }

  Mesh& mesh_;
  Communicator& world_;
  CpuBackend backend_;
};

std::string Joined(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) StrAppend(text, text.empty() ? "" : " ", number);
  return text;
}

// A row; whether it is as it must be.
bool Report(const Case& at, const Measured& measured, double latency) {
  const Schedule schedule = InsertTransfers(Must(at.Source().Make(at.ranks, at.microbatches)));
  const ScheduleFacts facts = Must(CheckSchedule(schedule));
  const double simulated =
      Must(SimulateSchedule(schedule, {.stages = {at.Costs()}, .transfer = latency})).makespan;
  std::vector<int64_t> live;
  for (const RankFacts& rank : facts.ranks) live.push_back(rank.peak_live);
  const double ratio = measured.median() / simulated;
  const bool ok = std::abs(ratio - 1) <= kTolerance && live == measured.live && measured.right;
  const std::optional<double> formula = BubbleFormula(at);
  char formula_text[16] = "";
  if (formula) std::snprintf(formula_text, sizeof(formula_text), "%.1f", 1e3 * *formula);
  std::printf("| %s | %d | %d | %d | %.1f | %.1f (%.1f to %.1f) | %.3f | %.1f | %s | %s | %s |%s\n",
              std::string(ToString(at.kind)).c_str(), at.ranks, at.chunks, at.microbatches, 1e3 * simulated,
              1e3 * measured.median(), 1e3 * measured.seconds.front(), 1e3 * measured.seconds.back(), ratio,
              1e3 * (measured.median() - at.Ideal()), formula_text, Joined(live).c_str(),
              Joined(measured.live).c_str(),
              ok               ? ""
              : measured.right ? " WRONG"
                               : " WRONG: a tensor arrived in the wrong place");
  std::fflush(stdout);
  return ok;
}

bool RunRank(Mesh& mesh) {
  const int rank = mesh.rank(), ranks = mesh.world().size();
  RankBench bench(mesh);
  const double latency = bench.MeasureTransfer();
  if (rank == 0) {
    std::printf("%d ranks: a transfer takes %.3f ms; load of the machine %s\n", ranks, 1e3 * latency,
                LoadOfMachine().c_str());
  }
  bool ok = true;
  std::map<int, double> plain;  // 1F1B's step, by microbatches
  for (const Case& at : CasesOf(ranks)) {
    const Measured measured = bench.Measure(at);
    if (rank != 0) continue;
    ok = Report(at, measured, latency) && ok;
    if (at.kind == ScheduleKind::k1F1B) plain[at.microbatches] = measured.median();
    if (at.kind != ScheduleKind::kZbH1 || at.microbatches < ranks) continue;
    const double shorter = plain.at(at.microbatches) - measured.median();
    const double formula = 2 * (ranks - 1) * kRankCosts.backward_weight;
    const bool right = std::abs(shorter - formula) <= kTolerance * formula;
    std::printf("zb-h1 is %.1f shorter than 1f1b; 2(p-1)W is %.1f%s\n", 1e3 * shorter, 1e3 * formula,
                right ? "" : " WRONG");
    ok = ok && right;
  }
  return ok;
}

int Main(int argc, char** argv) {
  return PrintTable(
      "| schedule | p | v | m | simulated | measured | ratio | bubble | formula | live by checker | counted "
      "|\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n",
      RanksOf(argc, argv), RunRank);
}

}  // namespace
}  // namespace ftune

int main(int argc, char** argv) { return ftune::Main(argc, argv); }
