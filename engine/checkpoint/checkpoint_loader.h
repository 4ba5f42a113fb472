// Brings what training changes back to what a checkpoint has, on any mesh: each rank reads its own slices.
#pragma once

#include "absl/status/status.h"
#include "engine/backend/backend.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/model/model.h"
#include "engine/optim/optimizer.h"
#include "engine/shard/model_shards.h"

namespace ftune {

// Called by all ranks of the mesh. An error where the model has a trained parameter that the checkpoint has
// not, or the other way round, or of another shape or type; or the optimizer a state. What was loaded before
// an error stays.
absl::Status LoadCheckpoint(Backend& backend, Stream stream, CheckpointReader& reader, Model& model,
                            ModelShards& shards, Optimizer& optimizer);

}  // namespace ftune
