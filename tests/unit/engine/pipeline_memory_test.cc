// What a rank's activations occupy in a step is what the simulator says of them, for every schedule.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "parallel/schedule/simulate.h"
#include "tests/unit/engine/staged_step.h"

TEST_SUITE_BEGIN("pipeline");

namespace ftune::testing {
namespace {

int64_t Activations(Backend& backend) { return backend.ledger().current()[Category::kActivations]; }

// What a microbatch in a stage keeps: bytes after its forward, and after B.
struct Kept {
  int64_t after_forward = 0;
  int64_t after_input = 0;
};

class WeighingWork final : public StageWork {
 public:
  WeighingWork(Backend& backend, std::unique_ptr<StageWork> under)
      : backend_(backend), under_(std::move(under)) {}

  const std::map<int, Kept>& kept() const { return kept_; }  // by stage

  bool Differentiated(const LocalStage& stage) const override { return under_->Differentiated(stage); }
  Tensor Forward(const LocalStage& stage, InFlight& flight, const Context& context, Tensor x,
                 const ForwardOptions& options) override {
    const int64_t before = Activations(backend_) - BytesOf(x);
    Tensor y = under_->Forward(stage, flight, context, std::move(x), options);
    kept_[stage.stage].after_forward = Activations(backend_) - BytesOf(y) - before;
    return y;
  }
  Tensor Backward(const LocalStage& stage, InFlight& flight, const Context& context, Tensor gradient,
                  const BackwardOptions& options) override {
    const int64_t before = Activations(backend_) - BytesOf(gradient);
    Tensor made = under_->Backward(stage, flight, context, std::move(gradient), options);
    Kept& kept = kept_[stage.stage];
    kept.after_input = kept.after_forward + Activations(backend_) - BytesOf(made) - before;
    return made;
  }
  void BackwardWeight(const LocalStage& stage, InFlight& flight, const Context& context, bool last) override {
    under_->BackwardWeight(stage, flight, context, last);
  }

 private:
  static int64_t BytesOf(const Tensor& x) {
    return x.defined() ? AllocationBytes(x.size() * static_cast<int64_t>(sizeof(float))) : 0;
  }

  Backend& backend_;
  std::unique_ptr<StageWork> under_;
  std::map<int, Kept> kept_;
};

struct Weighed {
  std::map<int, Kept> kept;    // of all stages
  std::vector<int64_t> peaks;  // of activations, by rank
};

Weighed Weigh(const TinyOptions& options, int ranks, const std::vector<Batch>& microbatches) {
  Weighed weighed;
  weighed.peaks.resize(ranks);
  std::mutex mutex;
  RunStagedStep<WeighingWork>(
      options, ranks, microbatches, 0.01f,
      [](Backend& backend, std::unique_ptr<StageWork> under) {
        return std::make_unique<WeighingWork>(backend, std::move(under));
      },
      [&](const StagedRank<WeighingWork>& rank) {
        CHECK(Activations(rank.backend) == 0);
        rank.backend.ledger().ResetPeak();
        rank.run();
        CHECK(Activations(rank.backend) == 0);
        const std::lock_guard lock(mutex);
        weighed.peaks[rank.mesh.rank()] = rank.backend.ledger().peak()[Category::kActivations];
        weighed.kept.insert(rank.work.kept().begin(), rank.work.kept().end());
      });
  return weighed;
}

// By each stage's own weights.
std::vector<ActivationWeight> WeightsOf(const std::map<int, Kept>& kept) {
  std::vector<ActivationWeight> weights;
  for (const auto& [stage, bytes] : kept) {
    weights.push_back({static_cast<double>(bytes.after_forward - bytes.after_input),
                       static_cast<double>(bytes.after_input)});
  }
  return weights;
}

// Besides what it keeps, a rank has what one action works with and what is under way: less than half of what
// any stage of two layers or more keeps of a microbatch, so that one too many, or too few, is seen.
void CheckPeaks(const TinyOptions& options, int ranks, int microbatches) {
  const Batch batch = MakeBatch({{20, 12}}, 32, 1);
  const Weighed weighed = Weigh(options, ranks, std::vector<Batch>(microbatches, batch));
  const auto schedule = options.schedule.Make(ranks, microbatches);
  REQUIRE(schedule.ok());
  const auto simulation = SimulateSchedule(*schedule, {}, {}, WeightsOf(weighed.kept));
  REQUIRE(simulation.ok());
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [stage, kept] : weighed.kept) least = std::min<double>(least, kept.after_forward);
  for (int rank = 0; rank < ranks; ++rank) {
    const double want = simulation->ranks[rank].peak_activations;
    const auto got = static_cast<double>(weighed.peaks[rank]);
    CHECK_MESSAGE(std::abs(got - want) < least / 2, ToString(options.schedule.kind), ", rank ", rank, " of ",
                  ranks, ", ", microbatches, " microbatches: ", got, " instead of ", want, ", a stage keeps ",
                  least);
  }
}

TEST_CASE("a rank's activations are what the simulator says") {
  using enum ScheduleKind;
  TinyOptions options = Sgd();
  options.config.num_layers = 10;
  options.config.layer_window.resize(10, 0);
  for (const int microbatches : {1, 6}) {
    for (const ScheduleKind kind : {kGPipe, k1F1B, kZbH1}) {
      options.schedule = {.kind = kind};
      for (const int ranks : {2, 4}) CheckPeaks(options, ranks, microbatches);
    }
    options.schedule = {.kind = kVHalf, .chunks = 2};
    CheckPeaks(options, 2, microbatches);
  }
}

}  // namespace
}  // namespace ftune::testing

TEST_SUITE_END();
