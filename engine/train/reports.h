// What a training run tells while it runs. The log, the progress display and the summary all read these.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "base/timeline.h"
#include "engine/tensor/ledger.h"

namespace ftune {

struct StepReport {
  int64_t step = 0;  // 1-based
  int64_t total_steps = 0;
  double epoch = 0.0;  // epochs of data consumed after this step
  double loss = 0.0;   // Σ token losses ÷ trained tokens of the global batch
  double learning_rate = 0.0;
  double grad_norm = 0.0;
  int64_t tokens = 0;          // of the samples in this step, packing gaps not counted
  int64_t trained_tokens = 0;  // of those, the ones in the loss
  double step_seconds = 0.0;
  double data_wait_seconds = 0.0;
  double tokens_per_second = 0.0;
  double flops_per_second = 0.0;    // what the step's tokens need (ModelFlops), whatever the ranks did
  int64_t communication_bytes = 0;  // that this rank sent, with algorithms that send least
  MemoryUse memory;                 // at the step's peak, of the rank that needs most
  int memory_rank = 0;
};

// A step whose gradients overflowed: its data is used up, the weights are as they were.
struct SkipReport {
  int64_t step = 0;
  double loss = 0.0;
  double loss_scale = 0.0;       // that was too large
  double next_loss_scale = 0.0;  // that the next step is tried with
};

struct EvalReport {
  int64_t step = 0;
  double epoch = 0.0;
  double loss = 0.0;
  int64_t tokens = 0;  // trained tokens of the evaluation set
  bool best = false;   // lower than all before
  double seconds = 0.0;
};

// What this rank did in a step, on Timeline::Now's clock.
struct TraceReport {
  int64_t step = 0;
  double start = 0.0;  // when the ranks began it together
  std::vector<TimeSpan> spans;
};

class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void OnStep(const StepReport& report) = 0;
  virtual void OnSkip(const SkipReport& report) = 0;
  // An error ends the run.
  virtual absl::Status OnEval(const EvalReport& report) = 0;
  // On all ranks alike. An error ends the run.
  virtual absl::Status OnTrace(TraceReport) { return absl::OkStatus(); }
};

}  // namespace ftune
