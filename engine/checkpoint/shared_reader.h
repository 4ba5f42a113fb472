// A checkpoint for all ranks, where only the first may see its folder: the others read their slices through
// it.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/model/model.h"
#include "engine/optim/optimizer.h"
#include "engine/shard/model_shards.h"
#include "parallel/comm/communicator.h"

namespace ftune {

// Called by all ranks of the world, with the folder's path on the first rank's host. A rank that does not see
// it there is sent what it has of `model` and `optimizer`, and its reader gives that, once, to
// LoadCheckpoint.
absl::StatusOr<CheckpointReader> OpenForAllRanks(Communicator& world, const std::filesystem::path& folder,
                                                 const Model& model, const ModelShards& shards,
                                                 const Optimizer& optimizer);

}  // namespace ftune
