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

// For another run that begins with a checkpoint's values, of which the model has been loaded: gives the
// optimizer's masters the precision that the checkpoint has. Called by all ranks. Parameters that it does not
// have in f32, or in another shape (rows of tokens were added), stay as they are.
absl::Status LoadMasters(Backend& backend, Stream stream, CheckpointReader& reader, Model& model,
                         ModelShards& shards, Optimizer& optimizer);

}  // namespace ftune
