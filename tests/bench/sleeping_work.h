// A stage whose actions take a given time in which nothing is computed, so that a few cores can show the
// schedule of many ranks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <utility>

#include "engine/pipeline/forward_pass.h"
#include "engine/pipeline/stage_work.h"
#include "parallel/schedule/schedule.h"

namespace ftune {

// Of the machine, the same in all its processes. Seconds.
inline double MachineTime() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline void SleepUntil(double time) {
  const double whole = std::floor(time);
  const timespec at = {static_cast<time_t>(whole), static_cast<long>(1e9 * (time - whole))};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) != 0) {
  }
}

// A rank that is busy for given times, one after another. What it sleeps too long it makes up for in the next
// one, less the time that has passed since then: what it waits for is never made up for.
class BusyTime {
 public:
  void Spend(double seconds) {
    const double now = MachineTime();
    const double end = now - std::max(0.0, late_ - (now - woke_)) + seconds;
    SleepUntil(end);
    woke_ = MachineTime();
    late_ = woke_ - end;
  }

 private:
  double woke_ = 0;
  double late_ = 0;
};

class SleepingWork final : public StageWork {
 public:
  // What a microbatch in a stage keeps until its last backward, allocated as activations: far more than all
  // that is under way between the ranks.
  static constexpr int64_t kKeptBytes = int64_t{1} << 20;

  // `costs` in seconds; `stages` of the whole pipeline. `model` gives the width of what is sent alone.
  // Batches differ in their first_token, by less than 2^24 / stages.
  SleepingWork(Backend& backend, const Model& model, int stages, const StageCosts& costs)
      : backend_(backend), model_(model), stages_(stages), costs_(costs) {}

  // Whether every stage was given what its neighbour made for the same microbatch.
  bool right() const { return right_; }

  bool Differentiated(const LocalStage&) const override { return true; }

  Tensor Forward(const LocalStage& stage, InFlight& flight, const Context& context, Tensor x,
                 const ForwardOptions&) override {
    flight.inputs = {backend_.Allocate(DType::kU8, 1, kKeptBytes, Category::kActivations)};
    if (stage.stage > 0) Check(x, context, stage.stage - 1);
    time_.Spend(costs_.forward);
    return stage.stage + 1 < stages_ ? Made(context, stage.stage) : Tensor();
  }

  Tensor Backward(const LocalStage& stage, InFlight&, const Context& context, Tensor gradient,
                  const BackwardOptions& options) override {
    if (stage.stage + 1 < stages_) Check(gradient, context, -(stage.stage + 1));
    time_.Spend(costs_.backward_input + (options.with_weights ? costs_.backward_weight : 0.0));
    return stage.stage > 0 ? Made(context, -stage.stage) : Tensor();
  }

  void BackwardWeight(const LocalStage&, InFlight&, const Context&, bool) override {
    time_.Spend(costs_.backward_weight);
  }

 private:
  // Gradients have the sign of their stage.
  float Mark(const Context& context, int stage) const {
    const auto number = static_cast<float>(context.batch.first_token * stages_ + std::abs(stage));
    return stage < 0 ? -number : number;
  }
  Tensor Made(const Context& context, int stage) const {
    Tensor made = NewRows(backend_, model_, context.batch.tokens);
    const float mark = Mark(context, stage);
    std::memcpy(made.bytes() + (made.size() - 1) * sizeof(mark), &mark, sizeof(mark));
    return made;
  }
  void Check(const Tensor& got, const Context& context, int stage) {
    float mark = 0;
    std::memcpy(&mark, got.bytes() + (got.size() - 1) * sizeof(mark), sizeof(mark));
    right_ = right_ && mark == Mark(context, stage);
  }

  Backend& backend_;
  const Model& model_;
  int stages_;
  StageCosts costs_;
  BusyTime time_;
  bool right_ = true;
};

}  // namespace ftune
