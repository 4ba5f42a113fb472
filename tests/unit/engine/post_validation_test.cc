// Stages that update without waiting for each other: the same bits as with a barrier, and all of them back
// where some stage's loss or gradients turn out not to be finite.
#include "tests/unit/engine/post_validation.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

TEST_SUITE_BEGIN("post-validation");

namespace ftune::testing {
namespace {

TEST_CASE("the update is the barrier's to the bit, with every optimizer") {
  for (const TinyOptions& options : OptimizersToTakeBack()) {
    for (const int ranks : {2, 4}) {
      CAPTURE(static_cast<int>(options.optimizer.kind));
      CAPTURE(ranks);
      Course course = {.options = options};
      course.point.shape.pipeline = ranks;
      CheckCourse(course);
    }
  }
}

TEST_CASE("the update is the barrier's to the bit, with every schedule and on other axes") {
  TinyOptions tied = Deep();
  tied.config.tied_head = true;
  TinyOptions lora = Deep();
  lora.lora = true;
  for (const ScheduleKind kind : ScheduleKinds()) {
    if (!GainsWithoutBarrier(kind)) continue;
    CAPTURE(std::string(ToString(kind)));
    for (const TinyOptions& options : {tied, lora}) {
      Course course = {.options = options, .point = {.shape = {.pipeline = 4}, .schedule = SourceOf(kind)}};
      CheckCourse(course);
      for (const int zero : {1, 2, 3}) {
        CAPTURE(zero);
        course.point.zero = zero;
        course.point.shape = {.data = 2, .pipeline = 2};
        CheckCourse(course);
      }
      course.point.zero = 0;
      course.point.shape = {.tensor = 2, .pipeline = 2};
      CheckCourse(course);
    }
  }
}

TEST_CASE("a loss that is not a number on the last stage is taken back on all, with every optimizer") {
  for (const TinyOptions& options : OptimizersToTakeBack()) {
    for (const int ranks : {2, 4}) {
      CAPTURE(static_cast<int>(options.optimizer.kind));
      CAPTURE(ranks);
      Course course = {.options = options, .faults = {{2, StepFault::kLoss}}};
      course.point.shape.pipeline = ranks;
      for (const RankCourse& rank : CheckCourse(course)) CHECK(std::isnan(rank.outputs[1].loss));
    }
  }
}

// The first step, one in the middle, the last, two in a row, and the last two.
const std::vector<std::vector<int>> kBadSteps = {{1}, {3}, {5}, {2, 3}, {4, 5}};

TEST_CASE("steps that are bad on one rank alone are taken back on all, wherever they are in a run") {
  std::vector<MeshPoint> points = {{.shape = {.pipeline = 4}}, {.shape = {.tensor = 2, .pipeline = 2}}};
  for (const int zero : {0, 1, 2, 3}) points.push_back({.shape = {.data = 2, .pipeline = 2}, .zero = zero});
  for (MeshPoint point : points) {
    // What a step that is thrown away sends, and the sum of a tied weight, is left behind nowhere.
    const bool tied = point.zero % 2 == 1;
    point.schedule = SourceOf(tied ? ScheduleKind::kZbV : ScheduleKind::kZbH2);
    for (const StepFault fault : {StepFault::kLoss, StepFault::kGradient}) {
      for (const std::vector<int>& bad : kBadSteps) {
        CAPTURE(point.Describe());
        CAPTURE(static_cast<int>(fault));
        CAPTURE(bad.front());
        Course course = {.point = point, .steps = 5};
        course.options.config.tied_head = tied;
        for (const int step : bad) course.faults[step] = fault;
        for (const RankCourse& rank : CheckCourse(course)) {
          for (const int step : bad) {
            CHECK(std::isfinite(rank.outputs[step - 1].loss) == (fault == StepFault::kGradient));
          }
        }
      }
    }
  }
}

TEST_CASE("dropout of a step that is run again is that of the step") {
  Course course = {.steps = 4, .faults = {{2, StepFault::kGradient}}};
  course.options.lora = true;
  course.options.lora_options.dropout = 0.3f;
  course.options.step.neftune_alpha = 5.0f;
  CheckCourse(course);
}

TEST_CASE("an overflow of scaled gradients is taken back on all, and the scale is the barrier's") {
  Course course = {.steps = 6};
  course.options.trainable_dtype = DType::kF16;
  course.options.optimizer = {.kind = OptimizerKind::kAdamW};
  for (const int ranks : {2, 4}) {
    CAPTURE(ranks);
    course.point.shape.pipeline = ranks;
    // It grows at each good step, so that each is computed with a scale that is not yet known to be right.
    course.options.step.loss_scaler = LossScalerOptions{.initial = 1024.0, .growth_interval = 1};
    for (const std::vector<int>& bad : std::vector<std::vector<int>>{{}, {1}, {3}, {6}, {2, 3}, {2, 4}}) {
      course.faults.clear();
      for (const int step : bad) course.faults[step] = StepFault::kGradient;
      for (const RankCourse& rank : CheckCourse(course)) {
        for (const int step : bad) CHECK(rank.outputs[step - 1].overflow);
      }
    }
    // Without a loss there is no overflow: the scaler is told nothing.
    course.faults = {{2, StepFault::kLoss}};
    for (const RankCourse& rank : CheckCourse(course)) CHECK_FALSE(rank.outputs[1].overflow);
  }
}

TEST_CASE("a scale that is too large overflows by itself, and backs off") {
  Course course = {.steps = 3};
  course.options.trainable_dtype = DType::kF16;
  course.options.optimizer = {.kind = OptimizerKind::kAdamW};
  course.options.step.loss_scaler = LossScalerOptions{.initial = 1e40, .backoff = 1e-38, .hysteresis = 1};
  const std::vector<RankCourse> got = Train(course);
  for (const RankCourse& rank : got) {
    CHECK(rank.outputs[0].overflow);
    CHECK_FALSE(rank.outputs[1].overflow);
    CHECK(rank.outputs[1].loss_scale < 1e3);
    CHECK(rank.again == 1);
  }
  CheckSame(got, Train(WithBarrier(course)));
}

// On the ranks of a pipeline, what `look` says of their trainers.
template <class T>
std::vector<T> OfEach(const TinyOptions& options, ScheduleKind kind, bool meta,
                      const std::function<T(TinyTrainer&)>& look, const MeshShape& shape = {.pipeline = 2}) {
  std::vector<T> all(shape.ranks());
  RunRanks(shape, [&](Mesh& mesh) {
    TinyOptions own = options;
    own.schedule = SourceOf(kind);
    const std::unique_ptr<Backend> backend =
        meta ? std::unique_ptr<Backend>(MakeMeta()) : std::unique_ptr<Backend>(MakeCpu());
    TinyTrainer trainer(*backend, own, TensorAxis(mesh.axis(MeshAxis::kTensor), false), &mesh);
    all[mesh.rank()] = look(trainer);
  });
  return all;
}

TEST_CASE("the copy is counted, on meta as on the CPU, and only where it is needed") {
  const auto use = [](const TinyOptions& options, ScheduleKind kind, bool meta) {
    return OfEach<int64_t>(options, kind, meta, [](TinyTrainer& trainer) {
      return trainer.backend.ledger().current()[Category::kOptimizer];
    });
  };
  for (const TinyOptions& options : OptimizersToTakeBack()) {
    TinyOptions clipped = options;
    clipped.step.max_grad_norm = 1.0f;
    const auto copies = OfEach<int64_t>(clipped, ScheduleKind::kZbH2, false, [](TinyTrainer& trainer) {
      int64_t bytes = 0;
      for (const Tensor& copy : trainer.optimizer->AllocateBackup(trainer.backend).tensors) {
        bytes += AllocationBytes(BytesFor(copy.dtype(), copy.size()));
      }
      return bytes;
    });
    const std::vector<int64_t> with = use(options, ScheduleKind::kZbH2, false);
    const std::vector<int64_t> without = use(clipped, ScheduleKind::kZbH2, false);
    for (const int rank : {0, 1}) {
      CHECK(copies[rank] > 0);
      CHECK(with[rank] == without[rank] + copies[rank]);
    }
    CHECK(use(options, ScheduleKind::kZbH1, false) == without);
    CHECK(use(options, ScheduleKind::kZbH2, true) == with);
  }
}

TEST_CASE("what keeps the barrier is said where the schedule would gain without it") {
  const auto why = [](const TinyOptions& options, ScheduleKind kind, int data = 1) {
    const auto all = OfEach<std::string>(options, kind, false,
                                         [](TinyTrainer& trainer) { return trainer.step->why_barrier(); },
                                         {.data = data, .pipeline = 2});
    for (const std::string& other : all) CHECK(other == all[0]);
    return all[0];
  };
  TinyOptions options = Deep();
  CHECK(why(options, ScheduleKind::kZbV) == "");
  const TempFolder folder;
  options.offload = OffloadOptions{.disk = {.folder = folder.path()}};
  CHECK(why(options, ScheduleKind::kZbV).find("memory.offload") != std::string::npos);
  // One rank alone has states on disk.
  options.trainable = [](const std::string& name) { return name.find("layers.5.") != std::string::npos; };
  CHECK(why(options, ScheduleKind::kZbH2).find("memory.offload") != std::string::npos);
  options.offload.reset();
  options.sharding.compression = {.kind = Compression::kInt8};
  CHECK(why(options, ScheduleKind::kZbH2, 2).find("parallel.compression") != std::string::npos);
  CHECK(why(options, ScheduleKind::kZbH2, 1) == "");  // there is nothing to compress
  options.step.max_grad_norm = 1.0f;
  CHECK(why(options, ScheduleKind::kZbV) ==
        "parallel.schedule zb-v: clipping needs the gradient norm first, so all stages wait for each other "
        "before each update; set optimizer.max_grad_norm to null to let stages update without waiting");
  CHECK(why(options, ScheduleKind::k1F1B) == "");
}

}  // namespace
}  // namespace ftune::testing

TEST_SUITE_END();
