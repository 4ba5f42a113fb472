// A few steps of a tiny model on any mesh of threads, compared with one rank: the same weights, the same
// global batches, cut as the mesh asks.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "data/loader/batch_source.h"
#include "engine/verify/verify_run.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/engine/ranks.h"

namespace ftune::testing {

inline constexpr int kParitySteps = 2;

struct MeshPoint {
  MeshShape shape;
  int zero = 0;
  bool sequence = false;
  int accumulation = 1;
  ScheduleSource schedule = {};
  bool reshard_after_use = true;

  std::string Describe() const {
    std::string text = StrCat("tensor=", shape.tensor, ",data=", shape.data, ",zero=", zero,
                              ",sequence_parallel=", sequence, ",accumulation=", accumulation);
    if (shape.pipeline == 1) return text;
    return StrCat(text, ",pipeline=", shape.pipeline, ",schedule=", ToString(schedule.kind),
                  ",virtual_stages=", schedule.chunks, ",reshard_after_forward=", reshard_after_use);
  }
};

// Packs of a global batch: divisible by all that a mesh of the grid cuts it into.
inline constexpr int kPacks = 12;
inline constexpr int kPackTokens = 16;

// Trained tokens differ from pack to pack. In the first step some in the middle have none, in the second all
// of the last rank of four.
inline Batch PackOf(int64_t step, int pack) {
  const uint64_t seed = 1000 * step + pack;
  const int64_t first_token = int64_t{pack} * kPackTokens;
  const bool empty = step % 2 == 1 ? pack / 2 == 2 : pack / 3 == 3;
  if (empty) return MakeBatch({{}}, kPackTokens, seed, first_token);
  const int length = 3 + (5 * pack + 3 * static_cast<int>(step)) % 13;
  if (pack % 3 == 0) return MakeBatch({{length}}, kPackTokens, seed, first_token);
  return MakeBatch({{length, kPackTokens - length}}, kPackTokens, seed, first_token);
}

inline Batch JoinedPacks(int64_t step, int first, int count) {
  Batch joined = PackOf(step, first);
  for (int pack = first + 1; pack < first + count; ++pack) {
    const Batch next = PackOf(step, pack);
    const auto offset = static_cast<int32_t>(joined.tokens());
    for (Segment segment : next.segments) {
      joined.segments.push_back({segment.begin + offset, segment.length});
    }
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(joined.ids, next.ids);
    append(joined.positions, next.positions);
    append(joined.labels, next.labels);
    joined.packs += next.packs;
    joined.used_tokens += next.used_tokens;
    joined.trained_tokens += next.trained_tokens;
  }
  return joined;
}

// The share of one rank of the data axis.
class PackSource final : public BatchSource {
 public:
  // `on_step` is called before each.
  PackSource(const MeshPoint& point, int rank, std::function<void()> on_step)
      : data_(point.shape.data),
        accumulation_(point.accumulation),
        rank_(rank),
        on_step_(std::move(on_step)) {}

  absl::StatusOr<std::optional<StepBatches>> Next() override {
    if (on_step_) on_step_();
    StepBatches batches;
    const int count = kPacks / (data_ * accumulation_);
    ++step_;
    for (int m = 0; m < accumulation_; ++m) {
      batches.microbatches.push_back(JoinedPacks(step_, (m * data_ + rank_) * count, count));
    }
    for (int pack = 0; pack < kPacks; ++pack) batches.trained_tokens += PackOf(step_, pack).trained_tokens;
    batches.next = position();
    return batches;
  }
  absl::Status Seek(const DataPosition& position) override {
    step_ = position.step;
    return absl::OkStatus();
  }
  DataPosition position() const override { return {.step = step_}; }

 private:
  int data_, accumulation_, rank_;
  std::function<void()> on_step_;
  int64_t step_ = 0;
};

// Runs `rank` on each rank of a point, as a thread with its part of the model.
inline void OnRanks(const TinyOptions& model, const MeshPoint& point,
                    const std::function<void(Mesh&, const VerifyTrainer&)>& rank,
                    const WrapTransport& wrap = nullptr,
                    const std::function<void(Mesh&)>& on_step = nullptr) {
  RunRanks(
      point.shape,
      [&](Mesh& mesh) {
        mesh.set_timeout(absl::Seconds(wrap ? 2 : 60));
        TinyOptions options = model;
        options.sharding.zero = point.zero;
        options.schedule = point.schedule;
        options.sharding.reshard_after_use = point.reshard_after_use;
        // Norms and biases stay whole beside matrices that are shared out.
        options.sharding.persistence_threshold = 100;
        const auto backend = MakeCpu();
        TinyTrainer trainer(*backend, options, TensorAxis(mesh.axis(MeshAxis::kTensor), point.sequence),
                            &mesh);
        PackSource batches(point, mesh.Coordinate(MeshAxis::kData), [&] {
          if (on_step) on_step(mesh);
        });
        const LrOptions learning_rate = {.schedule = LrSchedule::kConstant, .peak = 0.3};
        rank(mesh, {*backend, *trainer.step, *trainer.model, batches, learning_rate});
      },
      wrap);
}

// What one rank does, which all points are compared with.
class OneRank {
 public:
  explicit OneRank(const TinyOptions& model) : model_(model), reference_(folder_.path()) {
    TinyOptions single = model;
    single.sharding = {};
    OnRanks(single, {}, [&](Mesh&, const VerifyTrainer& trainer) {
      const absl::Status status = RunReference(trainer, kParitySteps, reference_);
      REQUIRE_MESSAGE(status.ok(), std::string(status.message()));
    });
  }

  // The same on all ranks. An error of any of them.
  absl::StatusOr<VerifyResult> Compare(const MeshPoint& point, const WrapTransport& wrap = nullptr,
                                       const std::function<void(Mesh&)>& on_step = nullptr) const {
    std::mutex mutex;
    std::optional<absl::StatusOr<VerifyResult>> all;
    OnRanks(
        model_, point,
        [&](Mesh&, const VerifyTrainer& trainer) {
          absl::StatusOr<VerifyResult> own = RunComparison(trainer, reference_, VerifyTolerances());
          const std::lock_guard lock(mutex);
          if (!all || all->ok()) all = std::move(own);
        },
        wrap, on_step);
    return *std::move(all);
  }

 private:
  TinyOptions model_;
  TempFolder folder_;
  VerifyReference reference_;
};

}  // namespace ftune::testing
