// Which block of a model the memory that is made for all of training is for.
#pragma once

#include "absl/status/status.h"
#include "cmd/plan/memory_track.h"
#include "engine/model/model.h"
#include "engine/optim/optimizer.h"

namespace ftune {

// Tells `track` of each tensor of values, gradients and the optimizer's states which block it is of, or,
// where blocks share one, from which to which. States on disk have no tensors.
absl::Status NameTensors(const Model& model, const Optimizer& optimizer, MemoryTrack& track);

}  // namespace ftune
