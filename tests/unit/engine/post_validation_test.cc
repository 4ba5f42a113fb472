// Stages that update without waiting for each other: the same bits as with a barrier, and all of them back
// where some stage's loss or gradients turn out not to be finite.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/unit/engine/parity.h"

TEST_SUITE_BEGIN("post-validation");

namespace ftune::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
// No norm comes near it: nothing is clipped, but there is a barrier.
constexpr float kHuge = 1e30f;

TinyOptions Deep() {
  TinyOptions options = Sgd();
  options.config = Divisible(TinyConfig());
  options.config.num_layers = 6;
  options.config.layer_window.resize(6, 0);
  options.step.max_grad_norm = std::nullopt;
  return options;
}

ScheduleSource SourceOf(ScheduleKind kind) {
  const bool two = kind == ScheduleKind::kZbV || kind == ScheduleKind::kVHalf || kind == ScheduleKind::kVMin;
  return {.kind = kind, .chunks = two ? 2 : 1};
}

struct Place {
  TinyTrainer& trainer;
  Mesh& mesh;
};

struct Course {
  TinyOptions options = Deep();
  MeshPoint point = {.shape = {.pipeline = 2}, .schedule = SourceOf(ScheduleKind::kZbH2)};
  int steps = 3;
  // Called on each rank around each step. May be empty.
  std::function<void(const Place&, int step)> before, after;
  WrapTransport wrap = nullptr;
};

// Everything that a rank's training comes to: what it owns of weights, all that is kept for them, and the
// counter of updates.
using Bits = std::vector<std::byte>;

void Append(const Tensor& tensor, Bits& bits) {
  bits.insert(bits.end(), tensor.bytes(), tensor.bytes() + BytesFor(tensor.dtype(), tensor.size()));
}

Bits BitsOf(const TinyTrainer& trainer) {
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
  std::vector<Bits> before, after;  // by step
};

std::vector<RankCourse> Train(const Course& course) {
  constexpr int kMicrobatches = 4;
  const int data = course.point.shape.data;
  std::vector<RankCourse> ranks(course.point.shape.ranks());
  RunRanks(
      course.point.shape,
      [&](Mesh& mesh) {
        mesh.set_timeout(absl::Seconds(60));
        TinyOptions options = course.options;
        options.sharding.zero = course.point.zero;
        options.schedule = course.point.schedule;
        // Norms and biases stay whole beside matrices that are shared out.
        options.sharding.persistence_threshold = 100;
        const auto backend = MakeCpu();
        TinyTrainer trainer(*backend, options, TensorAxis(mesh.axis(MeshAxis::kTensor), false), &mesh);
        RankCourse& own = ranks[mesh.rank()];
        for (int step = 1; step <= course.steps; ++step) {
          int64_t trained = 0;
          std::vector<Batch> batches;
          for (int m = 0; m < data * kMicrobatches; ++m) {
            Batch batch = PackOf(step, m);
            trained += batch.trained_tokens;
            if (m % data == mesh.Coordinate(MeshAxis::kData)) batches.push_back(std::move(batch));
          }
          if (course.before) course.before({trainer, mesh}, step);
          own.before.push_back(BitsOf(trainer));
          own.outputs.push_back(trainer.RunOf(trained, batches, step, 0.01f));
          own.after.push_back(BitsOf(trainer));
          if (course.after) course.after({trainer, mesh}, step);
        }
      },
      course.wrap);
  return ranks;
}

Course WithBarrier(Course course) {
  course.options.step.max_grad_norm = kHuge;
  return course;
}

bool SameNumber(double a, double b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

// All ranks, all steps. Norms and losses are equal even where they are not numbers.
void CheckSame(const std::vector<RankCourse>& got, const std::vector<RankCourse>& want) {
  REQUIRE(got.size() == want.size());
  for (size_t rank = 0; rank < got.size(); ++rank) {
    CAPTURE(rank);
    REQUIRE(got[rank].outputs.size() == want[rank].outputs.size());
    for (size_t i = 0; i < got[rank].outputs.size(); ++i) {
      CAPTURE(i);
      const StepOutput &a = got[rank].outputs[i], &b = want[rank].outputs[i];
      CHECK((SameNumber(a.loss, b.loss) || (std::isnan(a.loss) && std::isnan(b.loss))));
      CHECK((SameNumber(a.grad_norm, b.grad_norm) || (std::isnan(a.grad_norm) && std::isnan(b.grad_norm))));
      CHECK(a.overflow == b.overflow);
      CHECK(a.loss_scale == b.loss_scale);
      CHECK(got[rank].after[i] == want[rank].after[i]);
    }
  }
}

// On every rank the second of three steps leaves what was before it; the others do not.
void CheckSecondTakenBack(const std::vector<RankCourse>& ranks) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    CAPTURE(rank);
    const RankCourse& own = ranks[rank];
    REQUIRE(own.outputs.size() == 3);
    CHECK(own.before[0] != own.after[0]);
    CHECK(own.before[1] == own.after[1]);
    CHECK(own.before[2] != own.after[2]);
    for (const int good : {0, 2}) {
      CHECK(std::isfinite(own.outputs[good].loss));
      CHECK(std::isfinite(own.outputs[good].grad_norm));
    }
  }
}

std::vector<TinyOptions> Optimizers() {
  std::vector<TinyOptions> all;
  for (const OptimizerKind kind :
       {OptimizerKind::kAdamW, OptimizerKind::kSgd, OptimizerKind::kLion, OptimizerKind::kAdafactor,
        OptimizerKind::kMuon, OptimizerKind::kAdamW8bit}) {
    TinyOptions& options = all.emplace_back(Deep());
    options.optimizer = {.kind = kind, .momentum = 0.9f, .weight_decay = 0.1f};
  }
  // With masters, and rounded at random by the counter of updates.
  for (const bool master : {true, false}) {
    TinyOptions& options = all.emplace_back(Deep());
    options.trainable_dtype = DType::kBF16;
    options.optimizer = {.kind = OptimizerKind::kAdamW, .master = master};
  }
  return all;
}

// What receives from other stages is spoiled on the first rank of the world while it is armed.
class SpoiledReceives final : public Transport {
 public:
  SpoiledReceives(std::unique_ptr<Transport> under, const std::atomic<bool>& armed)
      : SpoiledReceives(std::move(under), armed, false) {
    spoils_ = under_->rank() == 0;
  }

  int rank() const override { return under_->rank(); }
  int size() const override { return under_->size(); }
  absl::Status Run(const Call& call) override {
    absl::Status status = under_->Run(call);
    if (spoils_ && armed_ && call.kind == CallKind::kReceive) {
      REQUIRE(call.out.dtype == DType::kF32);
      constexpr float kInfinity = std::numeric_limits<float>::infinity();
      std::memcpy(call.out.data, &kInfinity, sizeof(kInfinity));
    }
    return status;
  }
  absl::StatusOr<SharedBytes> Allocate(int64_t bytes) override { return under_->Allocate(bytes); }
  absl::StatusOr<std::unique_ptr<Transport>> Split(const std::vector<int>& members) override {
    FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<Transport> part, under_->Split(members));
    return std::unique_ptr<Transport>(new SpoiledReceives(std::move(part), armed_, spoils_));
  }
  void set_timeout(absl::Duration timeout) override { under_->set_timeout(timeout); }
  void Abort(const absl::Status& status) override { under_->Abort(status); }
  absl::Status status() const override { return under_->status(); }

 private:
  SpoiledReceives(std::unique_ptr<Transport> under, const std::atomic<bool>& armed, bool spoils)
      : under_(std::move(under)), armed_(armed), spoils_(spoils) {}

  std::unique_ptr<Transport> under_;
  const std::atomic<bool>& armed_;
  bool spoils_;
};

TEST_CASE("the update is the barrier's to the bit, with every optimizer") {
  for (const TinyOptions& options : Optimizers()) {
    for (const int ranks : {2, 4}) {
      CAPTURE(static_cast<int>(options.optimizer.kind));
      CAPTURE(ranks);
      Course course = {.options = options};
      course.point.shape.pipeline = ranks;
      CheckSame(Train(course), Train(WithBarrier(course)));
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
      CheckSame(Train(course), Train(WithBarrier(course)));
      for (const int zero : {1, 2, 3}) {
        CAPTURE(zero);
        course.point.zero = zero;
        course.point.shape = {.data = 2, .pipeline = 2};
        CheckSame(Train(course), Train(WithBarrier(course)));
      }
      course.point.zero = 0;
      course.point.shape = {.tensor = 2, .pipeline = 2};
      CheckSame(Train(course), Train(WithBarrier(course)));
    }
  }
}

TEST_CASE("a loss that is not a number on the last stage is taken back on all, with every optimizer") {
  for (const TinyOptions& options : Optimizers()) {
    for (const int ranks : {2, 4}) {
      CAPTURE(static_cast<int>(options.optimizer.kind));
      CAPTURE(ranks);
      Course course = {.options = options};
      course.point.shape.pipeline = ranks;
      // A value of the head, put back afterwards.
      Bits kept;
      const auto head = [](const Place& place) {
        return place.trainer.model->blocks().back()->store().owned_values().Cols(0, 1);
      };
      const auto is_last = [&](const Place& place) { return place.mesh.rank() == ranks - 1; };
      course.before = [&](const Place& place, int step) {
        if (step != 2 || !is_last(place)) return;
        kept.clear();
        Append(head(place), kept);
        const Tensor bad = place.trainer.backend.Allocate(1, 1, Category::kBuffers);
        *bad.f32() = kNaN;
        place.trainer.backend.Convert(Stream(), bad, head(place));
      };
      course.after = [&](const Place& place, int step) {
        if (step == 2 && is_last(place)) place.trainer.backend.Upload(Stream(), kept, head(place));
      };
      const std::vector<RankCourse> got = Train(course);
      for (const RankCourse& rank : got) CHECK(std::isnan(rank.outputs[1].loss));
      CheckSecondTakenBack(got);
      CheckSame(got, Train(WithBarrier(course)));
    }
  }
}

TEST_CASE("an infinite gradient on the first stage alone is taken back on all") {
  std::atomic<bool> armed = false;
  Course course;
  course.wrap = [&](std::unique_ptr<Transport> transport) {
    return std::make_unique<SpoiledReceives>(std::move(transport), armed);
  };
  course.before = [&](const Place& place, int step) {
    if (place.mesh.rank() == 0) armed = step == 2;
  };
  for (const bool tied : {false, true}) {
    course.options.config.tied_head = tied;
    for (const int zero : {0, 1, 2, 3}) {
      CAPTURE(tied);
      CAPTURE(zero);
      course.point.zero = zero;
      course.point.shape = {.data = zero == 0 ? 1 : 2, .pipeline = zero == 0 ? 4 : 2};
      const std::vector<RankCourse> got = Train(course);
      for (const RankCourse& rank : got) {
        CHECK(std::isfinite(rank.outputs[1].loss));
        CHECK_FALSE(std::isfinite(rank.outputs[1].grad_norm));
      }
      CheckSecondTakenBack(got);
      CheckSame(got, Train(WithBarrier(course)));
    }
  }
}

TEST_CASE("an overflow of scaled gradients is taken back on all, and the scale backs off") {
  Course course;
  course.steps = 2;
  course.options.trainable_dtype = DType::kF16;
  course.options.optimizer = {.kind = OptimizerKind::kAdamW};
  course.options.step.loss_scaler = LossScalerOptions{.initial = 1e40, .backoff = 1e-38, .hysteresis = 1};
  for (const int ranks : {2, 4}) {
    course.point.shape.pipeline = ranks;
    const std::vector<RankCourse> got = Train(course);
    for (const RankCourse& rank : got) {
      CHECK(rank.outputs[0].overflow);
      CHECK(rank.before[0] == rank.after[0]);
      CHECK_FALSE(rank.outputs[1].overflow);
      CHECK(rank.outputs[1].loss_scale < 1e3);
      CHECK(rank.before[1] != rank.after[1]);
    }
    CheckSame(got, Train(WithBarrier(course)));
  }
}

// For each rank, the updates made when it first waited for another stage in something that is not an
// activation or a gradient on its way.
std::vector<int64_t> UpdatesBeforeWaiting(const Course& plan) {
  std::vector<int64_t> updates(plan.point.shape.ranks(), -1);
  Course course = plan;
  course.steps = 1;
  course.before = [&](const Place& place, int) {
    int64_t& first = updates[place.mesh.rank()];
    const auto observe = [&first, &trainer = place.trainer](const CommSpan& span) {
      if (span.exposed && first < 0) first = trainer.optimizer->updates();
    };
    place.mesh.world().set_observer(observe);
    place.mesh.axis(MeshAxis::kPipeline).set_observer(observe);
  };
  course.after = [](const Place& place, int) {
    place.mesh.world().set_observer(nullptr);
    place.mesh.axis(MeshAxis::kPipeline).set_observer(nullptr);
  };
  Train(course);
  return updates;
}

TEST_CASE("no rank waits for the other stages before its update") {
  Course course;
  course.point.shape.pipeline = 4;
  for (const bool tied : {false, true}) {
    course.options.config.tied_head = tied;
    CHECK(UpdatesBeforeWaiting(course) == std::vector<int64_t>(4, 1));
    CHECK(UpdatesBeforeWaiting(WithBarrier(course)) == std::vector<int64_t>(4, 0));
  }
}

// On the ranks of a pipeline of two, what `look` says of their trainers.
template <class T>
std::vector<T> OfEach(const TinyOptions& options, ScheduleKind kind, bool meta,
                      const std::function<T(TinyTrainer&)>& look) {
  std::vector<T> all(2);
  RunRanks({.pipeline = 2}, [&](Mesh& mesh) {
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
  for (const TinyOptions& options : Optimizers()) {
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
  const auto why = [](const TinyOptions& options, ScheduleKind kind) {
    const auto both = OfEach<std::string>(options, kind, false,
                                          [](TinyTrainer& trainer) { return trainer.step->why_barrier(); });
    CHECK(both[0] == both[1]);
    return both[0];
  };
  TinyOptions options = Deep();
  CHECK(why(options, ScheduleKind::kZbV) == "");
  const TempFolder folder;
  options.offload = OffloadOptions{.disk = {.folder = folder.path()}};
  CHECK(why(options, ScheduleKind::kZbV).find("memory.offload") != std::string::npos);
  // One rank alone has states on disk.
  options.trainable = [](const std::string& name) { return name.find("layers.5.") != std::string::npos; };
  CHECK(why(options, ScheduleKind::kZbH2).find("memory.offload") != std::string::npos);
  options.step.max_grad_norm = 1.0f;
  CHECK(why(options, ScheduleKind::kZbV) ==
        "parallel.schedule zb-v: clipping needs the gradient norm first, so all stages wait for each other "
        "before each update; set optimizer.max_grad_norm to null to let stages update without waiting");
  CHECK(why(options, ScheduleKind::k1F1B) == "");
}

TEST_CASE("a rank that is to stop stops all of them, one step later") {
  std::vector<std::vector<bool>> completed(2);
  std::vector<int> kept(2);
  RunRanks({.pipeline = 2}, [&](Mesh& mesh) {
    TinyOptions options = Deep();
    options.schedule = SourceOf(ScheduleKind::kZbH2);
    const auto backend = MakeCpu();
    TinyTrainer trainer(*backend, options, {}, &mesh);
    Bits before;
    for (int step = 1; step <= 4; ++step) {
      const Batch batch = PackOf(1, 0);
      before = BitsOf(trainer);
      const auto output = trainer.step->Run({.step = step,
                                             .microbatches = {batch},
                                             .trained_tokens = batch.trained_tokens,
                                             .learning_rate = 0.1f},
                                            [&] { return mesh.rank() == 1 && step == 2; });
      REQUIRE(output.ok());
      completed[mesh.rank()].push_back(output->completed);
      if (!output->completed) kept[mesh.rank()] = before == BitsOf(trainer);
    }
  });
  for (const int rank : {0, 1}) {
    CHECK(completed[rank] == std::vector<bool>{true, true, false, true});
    CHECK(kept[rank]);
  }
}

TEST_CASE("ranks that are not at the same step are told, and nothing is changed") {
  using Difference = std::function<void(StepInput&)>;
  const std::vector<std::pair<std::string, Difference>> differences = {
      {"the step", [](StepInput& input) { ++input.step; }},
      {"the trained tokens", [](StepInput& input) { ++input.trained_tokens; }},
      {"the number of microbatches", [](StepInput& input) { input.microbatches.pop_back(); }}};
  for (const auto& [name, differ] : differences) {
    for (const int other : {0, 1}) {
      CAPTURE(name);
      CAPTURE(other);
      std::vector<std::string> errors(2);
      std::vector<int> kept(2);
      RunRanks({.pipeline = 2}, [&, &differ = differ](Mesh& mesh) {
        mesh.set_timeout(absl::Seconds(10));
        TinyOptions options = Deep();
        options.schedule = SourceOf(ScheduleKind::kZbH2);
        const auto backend = MakeCpu();
        TinyTrainer trainer(*backend, options, {}, &mesh);
        const Batch batch = PackOf(1, 0);
        StepInput input = {.step = 5,
                           .microbatches = {batch, batch, batch},
                           .trained_tokens = 3 * batch.trained_tokens,
                           .learning_rate = 0.1f};
        if (mesh.rank() == other) differ(input);
        const Bits before = BitsOf(trainer);
        const auto output = trainer.step->Run(input, [] { return false; });
        if (!output.ok()) mesh.world().Abort(output.status());
        errors[mesh.rank()] = std::string(output.status().message());
        kept[mesh.rank()] = before == BitsOf(trainer);
      });
      for (const int rank : {0, 1}) {
        CHECK_MESSAGE(errors[rank].find("the ranks differ in " + name) != std::string::npos, errors[rank]);
        CHECK(kept[rank]);
      }
    }
  }
}

}  // namespace
}  // namespace ftune::testing

TEST_SUITE_END();
