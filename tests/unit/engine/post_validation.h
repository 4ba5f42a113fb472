// Runs of a few steps on a pipeline whose stages do not wait for each other, with and without faults, and
// what they come to: to be compared with those of stages that do wait.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/pipeline/model_work.h"
#include "tests/unit/engine/parity.h"

namespace ftune::testing {

inline TinyOptions Deep() {
  TinyOptions options = Sgd();
  options.config = Divisible(TinyConfig());
  options.config.num_layers = 6;
  options.config.layer_window.resize(6, 0);
  options.step.max_grad_norm = std::nullopt;
  return options;
}

inline ScheduleSource SourceOf(ScheduleKind kind) {
  const bool two = kind == ScheduleKind::kZbV || kind == ScheduleKind::kVHalf || kind == ScheduleKind::kVMin;
  return {.kind = kind, .chunks = two ? 2 : 1};
}

// What goes wrong in a step, on one rank alone.
enum class StepFault {
  kLoss,      // on the first rank that has the head the loss is not a number
  kGradient,  // what comes to the first stage from the second is infinite on rank 0 of the world
};

// Does what the model does, but for faults, each time that their step is run.
class SpoilingWork final : public StageWork {
 public:
  SpoilingWork(std::unique_ptr<StageWork> under, const std::map<int, StepFault>& faults, const Mesh& mesh,
               int stages)
      : under_(std::move(under)),
        faults_(faults),
        first_(mesh.rank() == 0),
        aside_(mesh.Coordinate(MeshAxis::kData) + mesh.Coordinate(MeshAxis::kTensor) > 0),
        stages_(stages) {}

  bool Differentiated(const LocalStage& stage) const override { return under_->Differentiated(stage); }
  Tensor Forward(const LocalStage& stage, InFlight& flight, const Context& context, Tensor x,
                 const ForwardOptions& options) override {
    Tensor y = under_->Forward(stage, flight, context, std::move(x), options);
    if (!aside_ && stage.stage + 1 == stages_ && Has(context, StepFault::kLoss)) {
      constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
      std::memcpy(context.loss.bytes(), &kNaN, sizeof(kNaN));
    }
    return y;
  }
  Tensor Backward(const LocalStage& stage, InFlight& flight, const Context& context, Tensor gradient,
                  const BackwardOptions& options) override {
    if (first_ && stage.stage == 0 && Has(context, StepFault::kGradient)) {
      gradient.f32()[0] = std::numeric_limits<float>::infinity();
    }
    return under_->Backward(stage, flight, context, std::move(gradient), options);
  }
  void BackwardWeight(const LocalStage& stage, InFlight& flight, const Context& context, bool last) override {
    under_->BackwardWeight(stage, flight, context, last);
  }

 private:
  bool Has(const Context& context, StepFault fault) const {
    const auto found = faults_.find(static_cast<int>(context.step));
    return found != faults_.end() && found->second == fault;
  }

  std::unique_ptr<StageWork> under_;
  const std::map<int, StepFault>& faults_;
  bool first_, aside_;
  int stages_;
};

using WrapWork = std::function<std::unique_ptr<StageWork>(std::unique_ptr<StageWork>, Mesh&)>;

// Gives a trainer's step another work.
inline void WrapWorkOf(TinyTrainer& trainer, Mesh& mesh, const TrainStep::Options& options,
                       const WrapWork& wrap) {
  auto work = std::make_unique<ModelWork>(trainer.backend, Stream(), *trainer.model, RecomputePolicy(),
                                          trainer.pipeline->first_trainable());
  trainer.step.reset();
  trainer.step =
      std::make_unique<TrainStep>(trainer.backend, Stream(), *trainer.model, *trainer.optimizer, options,
                                  trainer.shards.get(), trainer.pipeline.get(), wrap(std::move(work), mesh));
}

struct Course {
  TinyOptions options = Deep();
  MeshPoint point = {.shape = {.pipeline = 2}, .schedule = SourceOf(ScheduleKind::kZbH2)};
  int steps = 3;
  std::map<int, StepFault> faults = {};  // by step
};

// No norm comes near the greatest: nothing is clipped, but there is a barrier.
inline Course WithBarrier(Course course) {
  course.options.step.max_grad_norm = 1e30f;
  return course;
}

// Everything that a rank's training comes to: what it owns of weights, all that is kept for them, and the
// counter of updates.
using Bits = std::vector<std::byte>;

inline void Append(const Tensor& tensor, Bits& bits) {
  bits.insert(bits.end(), tensor.bytes(), tensor.bytes() + BytesFor(tensor.dtype(), tensor.size()));
}

inline Bits BitsOf(const TinyTrainer& trainer) {
  Bits bits;
  for (const auto& block : trainer.model->blocks()) {
    if (block->store().owned().count > 0) Append(block->store().owned_values(), bits);
    for (const Parameter& parameter : block->store().parameters()) {
      const auto states = trainer.optimizer->StateOf(parameter);
      REQUIRE(states.ok());
      for (const NamedTensor& state : *states) Append(state.tensor, bits);
    }
  }
  const int64_t updates = trainer.optimizer->updates();
  const auto* bytes = reinterpret_cast<const std::byte*>(&updates);
  bits.insert(bits.end(), bytes, bytes + sizeof(updates));
  return bits;
}

struct RankCourse {
  std::vector<StepOutput> outputs;
  Bits before;
  std::vector<Bits> after;  // each step was made
  Bits end;                 // all were settled
  int again = 0;            // steps that were run twice
};

// This rank's batches of a step of four microbatches a rank, and how many tokens are trained of all.
inline StepInput CourseInput(const Mesh& mesh, int step, float learning_rate = 0.01f) {
  constexpr int kMicrobatches = 4;
  const int data = mesh.shape().data;
  StepInput input = {.step = step, .learning_rate = learning_rate, .flops = 1.0 + mesh.rank()};
  for (int m = 0; m < data * kMicrobatches; ++m) {
    Batch batch = PackOf(step, m);
    input.trained_tokens += batch.trained_tokens;
    if (m % data == mesh.Coordinate(MeshAxis::kData)) input.microbatches.push_back(std::move(batch));
  }
  return input;
}

inline std::vector<RankCourse> Train(const Course& course) {
  std::vector<RankCourse> ranks(course.point.shape.ranks());
  RunRanks(course.point.shape, [&](Mesh& mesh) {
    mesh.set_timeout(absl::Seconds(60));
    TinyOptions options = course.options;
    options.sharding.zero = course.point.zero;
    options.schedule = course.point.schedule;
    // Norms and biases stay whole beside matrices that are shared out.
    options.sharding.persistence_threshold = 100;
    const auto backend = MakeCpu();
    TinyTrainer trainer(*backend, options, TensorAxis(mesh.axis(MeshAxis::kTensor), false), &mesh);
    WrapWorkOf(trainer, mesh, options.step, [&](std::unique_ptr<StageWork> work, Mesh& own) {
      return std::make_unique<SpoilingWork>(std::move(work), course.faults, own, trainer.pipeline->stages());
    });
    RankCourse& own = ranks[mesh.rank()];
    own.before = BitsOf(trainer);
    for (int step = 1; step <= course.steps; ++step) {
      const StepInput input = CourseInput(mesh, step);
      for (bool again = true; again;) {
        const auto progress = trainer.step->RunAhead(input, [] { return false; });
        REQUIRE_MESSAGE(progress.ok(), std::string(progress.status().message()));
        if (progress->settled) own.outputs.push_back(*progress->settled);
        again = progress->kind == StepProgress::Kind::kAgain;
        own.again += again ? 1 : 0;
      }
      own.after.push_back(BitsOf(trainer));
    }
    const auto settled = trainer.step->Settle();
    REQUIRE_MESSAGE(settled.ok(), std::string(settled.status().message()));
    if (*settled) own.outputs.push_back(**settled);
    own.end = BitsOf(trainer);
  });
  return ranks;
}

inline bool SameNumber(double a, double b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0 || (std::isnan(a) && std::isnan(b));
}

inline bool IsFinite(const StepOutput& output) {
  return std::isfinite(output.loss) && std::isfinite(output.grad_norm);
}

// All ranks, all steps, to the bit.
inline void CheckSame(const std::vector<RankCourse>& got, const std::vector<RankCourse>& want) {
  REQUIRE(got.size() == want.size());
  for (size_t rank = 0; rank < got.size(); ++rank) {
    CAPTURE(rank);
    REQUIRE(got[rank].outputs.size() == want[rank].outputs.size());
    for (size_t i = 0; i < got[rank].outputs.size(); ++i) {
      CAPTURE(i);
      const StepOutput &a = got[rank].outputs[i], &b = want[rank].outputs[i];
      CHECK(a.step == static_cast<int64_t>(i) + 1);
      CHECK(b.step == a.step);
      CHECK(a.completed);
      CHECK_MESSAGE(SameNumber(a.loss, b.loss), a.loss, " and ", b.loss);
      CHECK_MESSAGE(SameNumber(a.grad_norm, b.grad_norm), a.grad_norm, " and ", b.grad_norm);
      CHECK(a.overflow == b.overflow);
      CHECK(a.loss_scale == b.loss_scale);
      CHECK(a.costs.tokens == b.costs.tokens);
      CHECK(a.costs.flops == b.costs.flops);
      // A bad step moves the weights until it is settled.
      if (IsFinite(a)) CHECK(got[rank].after[i] == want[rank].after[i]);
    }
    CHECK(got[rank].end == want[rank].end);
  }
}

// The training of a course, which must be that of stages which wait, and on every rank those steps without an
// effect, taken back, that have a fault.
inline std::vector<RankCourse> CheckCourse(const Course& course) {
  const std::vector<RankCourse> got = Train(course), want = Train(WithBarrier(course));
  CheckSame(got, want);
  for (size_t rank = 0; rank < got.size(); ++rank) {
    CAPTURE(rank);
    // The last one is followed by no step that would have to be run again.
    CHECK(got[rank].again == static_cast<int>(course.faults.size() - course.faults.count(course.steps)));
    CHECK(want[rank].again == 0);
    const Bits* before = &want[rank].before;
    for (int step = 1; step <= course.steps; ++step) {
      CAPTURE(step);
      const Bits& after = want[rank].after[step - 1];
      CHECK(IsFinite(want[rank].outputs[step - 1]) == !course.faults.contains(step));
      CHECK((*before == after) == course.faults.contains(step));
      before = &after;
    }
  }
  return got;
}

// Of each kind one, with masters, and rounded at random by the counter of updates.
inline std::vector<TinyOptions> OptimizersToTakeBack() {
  std::vector<TinyOptions> all;
  for (const OptimizerKind kind :
       {OptimizerKind::kAdamW, OptimizerKind::kSgd, OptimizerKind::kLion, OptimizerKind::kAdafactor,
        OptimizerKind::kMuon, OptimizerKind::kAdamW8bit}) {
    TinyOptions& options = all.emplace_back(Deep());
    options.optimizer = {.kind = kind, .momentum = 0.9f, .weight_decay = 0.1f};
  }
  for (const bool master : {true, false}) {
    TinyOptions& options = all.emplace_back(Deep());
    options.trainable_dtype = DType::kBF16;
    options.optimizer = {.kind = OptimizerKind::kAdamW, .master = master};
  }
  return all;
}

}  // namespace ftune::testing
