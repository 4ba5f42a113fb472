// Stages that go on to the next step while others have not ended this one; and what ends or stops them.
#include <doctest/doctest.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/engine/post_validation.h"

TEST_SUITE_BEGIN("post-validation");

namespace ftune::testing {
namespace {

const std::function<bool()> kGoOn = [] { return false; };

// That something has happened.
class Flag {
 public:
  void Set() {
    const std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  // Whether it has in this time.
  bool WaitFor(absl::Duration time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, absl::ToChronoMilliseconds(time), [&] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

enum class Moment {
  kForward,     // an action begins
  kBackward,    // B or W
  kEndOfStage,  // the last W is done
};

// Tells of each moment before, at the end after, it does what the model does.
class ToldWork final : public StageWork {
 public:
  using Tell = std::function<void(Moment, const Context&)>;
  ToldWork(std::unique_ptr<StageWork> under, Tell tell) : under_(std::move(under)), tell_(std::move(tell)) {}

  bool Differentiated(const LocalStage& stage) const override { return under_->Differentiated(stage); }
  Tensor Forward(const LocalStage& stage, InFlight& flight, const Context& context, Tensor x,
                 const ForwardOptions& options) override {
    tell_(Moment::kForward, context);
    return under_->Forward(stage, flight, context, std::move(x), options);
  }
  Tensor Backward(const LocalStage& stage, InFlight& flight, const Context& context, Tensor gradient,
                  const BackwardOptions& options) override {
    tell_(Moment::kBackward, context);
    return under_->Backward(stage, flight, context, std::move(gradient), options);
  }
  void BackwardWeight(const LocalStage& stage, InFlight& flight, const Context& context, bool last) override {
    tell_(Moment::kBackward, context);
    under_->BackwardWeight(stage, flight, context, last);
    if (last) tell_(Moment::kEndOfStage, context);
  }

 private:
  std::unique_ptr<StageWork> under_;
  Tell tell_;
};

// Two steps. `tell` is called on each rank at each moment, `made` behind each step that is not settled.
void RunTwoSteps(const Course& course, const std::function<void(int rank, Moment, const Context&)>& tell,
                 const std::function<void(int rank, int step)>& made) {
  RunRanks(course.point.shape, [&](Mesh& mesh) {
    mesh.set_timeout(absl::Seconds(60));
    TinyOptions options = course.options;
    options.schedule = course.point.schedule;
    const auto backend = MakeCpu();
    TinyTrainer trainer(*backend, options, {}, &mesh);
    WrapWorkOf(trainer, mesh, options.step, [&](std::unique_ptr<StageWork> work, Mesh&) {
      return std::make_unique<ToldWork>(std::move(work),
                                        [&tell, rank = mesh.rank()](Moment moment, const Context& context) {
                                          tell(rank, moment, context);
                                        });
    });
    for (int step = 1; step <= 2; ++step) {
      CHECK(trainer.step->RunAhead(CourseInput(mesh, step), kGoOn).ok());
      made(mesh.rank(), step);
    }
    CHECK(trainer.step->Settle().ok());
  });
}

// Whether rank 0 begins the second step while each of the others is held at the end of the first.
bool RunsAhead(const Course& course, absl::Duration patience) {
  const int ranks = course.point.shape.ranks();
  Flag begun;
  std::vector<int> met(ranks, 0);
  RunTwoSteps(
      course,
      [&](int rank, Moment moment, const Context& context) {
        if (rank == 0 && moment == Moment::kForward && context.step == 2) begun.Set();
        if (rank != 0 && moment == Moment::kEndOfStage && context.step == 1) {
          met[rank] = begun.WaitFor(patience) ? 1 : 0;
        }
      },
      [](int, int) {});
  return std::count(met.begin(), met.end(), 1) == ranks - 1;
}

// Whether the last of two ranks is done with the first step while the other is held before it takes the last
// gradients: when it has done all forwards.
bool EndsBeforeAllIsTaken(const Course& course, absl::Duration patience) {
  constexpr int kForwards = 4;
  Flag ended;
  int forwards = 0;
  bool held = false, met = false;
  RunTwoSteps(
      course,
      [&](int rank, Moment moment, const Context& context) {
        if (rank != 0 || context.step != 1) return;
        if (moment == Moment::kForward) ++forwards;
        if (moment == Moment::kForward || forwards < kForwards || std::exchange(held, true)) return;
        met = ended.WaitFor(patience);
      },
      [&](int rank, int step) {
        if (rank == 1 && step == 1) ended.Set();
      });
  CHECK(held);
  return met;
}

TEST_CASE("a stage begins the next step while the others have not ended this one") {
  for (const int ranks : {2, 4}) {
    CAPTURE(ranks);
    Course course;
    course.point.shape.pipeline = ranks;
    CHECK(RunsAhead(course, absl::Seconds(30)));
    CHECK_FALSE(RunsAhead(WithBarrier(course), absl::Milliseconds(300)));
  }
}

TEST_CASE("a stage ends its step while what it sent last is not taken yet") {
  CHECK(EndsBeforeAllIsTaken({}, absl::Seconds(30)));
  CHECK_FALSE(EndsBeforeAllIsTaken(WithBarrier({}), absl::Milliseconds(300)));
}

// The steps that a rank had run when it first waited; `never` where it did not.
class FirstWaitOf final : public CallObserver {
 public:
  FirstWaitOf(const int& run, int& first, int never) : run_(run), first_(first), never_(never) {}
  void OnEnd(const CommSpan& span) override {
    if (span.exposed && first_ == never_) first_ = run_;
  }

 private:
  const int& run_;
  int& first_;
  int never_;
};

// For each rank, the steps that it had run when it first waited for others in something that is not an
// activation or a gradient on its way; of two, and 3 where it never did.
std::vector<int> FirstWait(const Course& course) {
  std::vector<int> first(course.point.shape.ranks(), 3);
  RunRanks(course.point.shape, [&](Mesh& mesh) {
    TinyOptions options = course.options;
    options.schedule = course.point.schedule;
    const auto backend = MakeCpu();
    TinyTrainer trainer(*backend, options, {}, &mesh);
    int run = 0;
    FirstWaitOf observer(run, first[mesh.rank()], 3);
    mesh.world().set_observers({&observer});
    mesh.axis(MeshAxis::kPipeline).set_observers({&observer});
    for (int step = 1; step <= 2; ++step) {
      CHECK(trainer.step->RunAhead(CourseInput(mesh, step), kGoOn).ok());
      ++run;
    }
    mesh.world().set_observers({});
    mesh.axis(MeshAxis::kPipeline).set_observers({});
    CHECK(trainer.step->Settle().ok());
  });
  return first;
}

TEST_CASE("no rank waits for all others within a step or behind it") {
  Course course;
  course.point.shape.pipeline = 4;
  for (const bool tied : {false, true}) {
    course.options.config.tied_head = tied;
    CHECK(FirstWait(course) == std::vector<int>(4, 3));
    CHECK(FirstWait(WithBarrier(course)) == std::vector<int>(4, 0));
  }
}

// A pipeline of two ranks, one of which does otherwise than the other.
void OnTwo(const std::function<void(TinyTrainer&, Mesh&)>& rank) {
  RunRanks({.pipeline = 2}, [&](Mesh& mesh) {
    mesh.set_timeout(absl::Seconds(20));
    TinyOptions options = Deep();
    options.schedule = SourceOf(ScheduleKind::kZbH2);
    const auto backend = MakeCpu();
    TinyTrainer trainer(*backend, options, {}, &mesh);
    rank(trainer, mesh);
  });
}

TEST_CASE("a rank that is to stop stops all of them, one step later") {
  using enum StepProgress::Kind;
  OnTwo([](TinyTrainer& trainer, Mesh& mesh) {
    for (int step = 1; step <= 4; ++step) {
      const Bits before = BitsOf(trainer);
      const auto progress =
          trainer.step->RunAhead(CourseInput(mesh, step), [&] { return mesh.rank() == 1 && step == 2; });
      REQUIRE(progress.ok());
      CHECK(progress->kind == (step == 3 ? kStopped : kMade));
      CHECK((before == BitsOf(trainer)) == (step == 3));
      CHECK(progress->settled.has_value() == (step == 2));
      if (step != 3) continue;
      const auto settled = trainer.step->Settle();
      REQUIRE(settled.ok());
      REQUIRE(settled->has_value());
      CHECK((*settled)->step == 2);
    }
    CHECK(trainer.step->Settle().ok());
  });
  // A step that is settled at once, likewise.
  OnTwo([](TinyTrainer& trainer, Mesh& mesh) {
    for (int step = 1; step <= 4; ++step) {
      const auto output =
          trainer.step->Run(CourseInput(mesh, step), [&] { return mesh.rank() && step == 2; });
      REQUIRE(output.ok());
      CHECK(output->completed == (step != 3));
      CHECK(output->step == step);
    }
  });
}

TEST_CASE("all ranks have the next batches where each has them") {
  for (const bool other_has : {false, true}) {
    OnTwo([&](TinyTrainer& trainer, Mesh& mesh) {
      StepInput input = CourseInput(mesh, 1);
      input.has_next = mesh.rank() == 0 || other_has;
      const auto progress = trainer.step->RunAhead(input, kGoOn);
      REQUIRE(progress.ok());
      CHECK(progress->all_have_next == other_has);
      CHECK(trainer.step->Settle().ok());
    });
  }
}

// Errors of both ranks where one of them is given another third step; all is then as before the second, which
// nobody could say was good.
std::vector<std::string> ErrorsOfThird(const std::function<void(StepInput&)>& differ, int other) {
  std::vector<std::string> errors(2);
  OnTwo([&](TinyTrainer& trainer, Mesh& mesh) {
    Bits first;
    for (int step = 1; step <= 2; ++step) {
      CHECK(trainer.step->RunAhead(CourseInput(mesh, step), kGoOn).ok());
      if (step == 1) first = BitsOf(trainer);
    }
    CHECK(first != BitsOf(trainer));
    StepInput input = CourseInput(mesh, 3);
    if (mesh.rank() == other) differ(input);
    const auto progress = trainer.step->RunAhead(input, kGoOn);
    if (!progress.ok()) mesh.world().Abort(progress.status());
    errors[mesh.rank()] = std::string(progress.status().message());
    CHECK(first == BitsOf(trainer));
  });
  return errors;
}

TEST_CASE("ranks that are not at the same step are told, and the step before is taken back") {
  using Difference = std::function<void(StepInput&)>;
  const std::vector<std::pair<std::string, Difference>> differences = {
      {"the step", [](StepInput& input) { ++input.step; }},
      {"the trained tokens", [](StepInput& input) { ++input.trained_tokens; }},
      {"the number of microbatches", [](StepInput& input) { input.microbatches.pop_back(); }}};
  for (const auto& [name, differ] : differences) {
    for (const int other : {0, 1}) {
      CAPTURE(name);
      CAPTURE(other);
      for (const std::string& error : ErrorsOfThird(differ, other)) {
        CHECK_MESSAGE(error.find("the ranks differ in " + name) != std::string::npos, error);
      }
    }
  }
}

TEST_CASE("ranks of which one settles and one goes on are told") {
  std::vector<std::string> errors(2);
  OnTwo([&](TinyTrainer& trainer, Mesh& mesh) {
    CHECK(trainer.step->RunAhead(CourseInput(mesh, 1), kGoOn).ok());
    const absl::Status status = mesh.rank() == 0
                                    ? trainer.step->Settle().status()
                                    : trainer.step->RunAhead(CourseInput(mesh, 2), kGoOn).status();
    if (!status.ok()) mesh.world().Abort(status);
    errors[mesh.rank()] = std::string(status.message());
  });
  for (const std::string& error : errors) {
    CHECK_MESSAGE(error.find("the ranks differ in the step") != std::string::npos, error);
  }
}

TEST_CASE("a rank that is gone makes the others fail with what it said") {
  for (const int gone : {0, 1}) {
    CAPTURE(gone);
    OnTwo([&](TinyTrainer& trainer, Mesh& mesh) {
      absl::Status status;
      for (int step = 1; step <= 3 && status.ok(); ++step) {
        status = trainer.step->RunAhead(CourseInput(mesh, step), kGoOn).status();
        if (mesh.rank() == gone) return mesh.world().Abort(absl::UnavailableError("the rank is gone"));
      }
      CHECK_MESSAGE(status.message().find("the rank is gone") != std::string::npos,
                    std::string(status.message()));
    });
  }
}

TEST_CASE("what all ranks know of each other adds up to what a sum gives, to the bit") {
  const MeshShape shape = {.tensor = 2, .data = 4, .pipeline = 3};
  RandomSequence random(5, 0);
  std::vector<double> values(shape.ranks());
  for (double& value : values) value = random.Uniform() * std::exp(40.0 * random.Uniform());
  RunRanks(shape, [&](Mesh& mesh) {
    for (const MeshAxis axis : {MeshAxis::kTensor, MeshAxis::kData, MeshAxis::kPipeline}) {
      const auto sum = mesh.axis(axis).AllReduce(values[mesh.rank()]);
      REQUIRE(sum.ok());
      CHECK(SumOverAxis(shape, axis, values)[mesh.rank()] == *sum);
    }
    const int first = mesh.Coordinate(MeshAxis::kData) / 2 * 2;
    const auto pair = mesh.axis(MeshAxis::kData).Split({first, first + 1});
    REQUIRE(pair.ok());
    CHECK(SumOverAxis(shape, MeshAxis::kData, values, 2)[mesh.rank()] ==
          *(*pair)->AllReduce(values[mesh.rank()]));
  });
}

TEST_CASE("a step's costs are those of the global batch, and its memory that of the rank that needs most") {
  const MeshShape shape = {.tensor = 2, .data = 2, .pipeline = 2};
  std::vector<StepCosts> costs(shape.ranks());
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    costs[rank].tokens = 100 + shape.Coordinate(rank, MeshAxis::kData);
    costs[rank].flops = 10.0 * (1 + shape.Coordinate(rank, MeshAxis::kPipeline));
    costs[rank].memory[Category::kWeights] = rank == 5 || rank == 6 ? 7 : rank;
  }
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    const WorldCosts total = TotalOf(shape, rank, costs);
    CHECK(total.tokens == 201);
    CHECK(total.flops == 60.0);
    CHECK(total.memory.total() == 7);
    CHECK(total.memory_rank == 5);  // the first of several
  }
}

}  // namespace
}  // namespace ftune::testing

TEST_SUITE_END();
