// The engine run dry: one rank of a recipe's mesh, with memory that is counted but not there, and nobody to
// talk to. What it allocates is what the rank of a real run does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cmd/plan/dry_batches.h"
#include "cmd/plan/dry_save.h"
#include "cmd/plan/dry_times.h"
#include "cmd/plan/dry_trace.h"
#include "cmd/recipe/recipe.h"
#include "cmd/run_options.h"
#include "cmd/train/pipeline_plan.h"
#include "engine/tensor/ledger.h"

namespace ftune {

struct DryRank {
  MemoryUse ready;     // with weights, gradients and optimizer, before the first step
  MemoryUse step;      // at the peak of a step: what a run's log says of it
  MemoryUse peak;      // at the moment of all when the sum was highest
  std::string moment;  // "forward 0, head": what was done then
  // Of the parameters that are here, each whole; copies that other stages have too are counted there.
  int64_t parameters = 0, trainable = 0;
  // With what a save in the background keeps from the first one on; the same as `step` where there is none.
  MemoryUse saved_step;
  int64_t host_bytes = 0;  // of that, what a device with its own memory keeps in its host's
  SavedBytes saved;
  // Of a step: asked of the device by this rank, with what is recomputed; see WorkCounter.
  double useful_flops = 0.0, recomputed_flops = 0.0;
  std::optional<DryTimes> times;  // of the last step; where the device is known
  DryTrace trace;                 // of the last step; where it was asked for

  bool SameMemory(const DryRank& other) const {
    return ready == other.ready && step == other.step && peak == other.peak;
  }
};

struct DryOptions {
  const DeviceModel* device = nullptr;  // null: it is not known
  HostPlaces places;
  bool trace = false;
  PackContent content = PackContent::kFull;
  std::optional<TypicalPack> typical;  // instead
};

// The model loaded, an evaluation where the recipe has data for one, steps of microbatches, and a checkpoint.
// `model.options` are those of one rank; `stages` where there is a pipeline.
absl::StatusOr<DryRank> RunDry(const Recipe& recipe, const ModelPlan& model,
                               const std::optional<PipelinePlan>& stages, int rank,
                               const DryOptions& options);

}  // namespace ftune
