// The data axis as shards times copies: neighbours share out one copy of the training state, ranks that are
// a multiple of them apart have the same share of different copies.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/shard/shard_options.h"
#include "parallel/mesh.h"

namespace ftune {

class DataGroups {
 public:
  // `mesh` outlives the groups. An error where shard_size does not divide the axis. Called by all ranks.
  static absl::StatusOr<DataGroups> Create(Mesh& mesh, const ShardOptions& options);

  // Those that share out a copy; one rank with zero 0.
  Communicator& shards() const { return *shards_; }
  // Those with the same share.
  Communicator& copies() const { return *copies_; }

  absl::Status status() const;
  CommTraffic traffic() const;  // of those that the mesh does not have

 private:
  Communicator* shards_ = nullptr;
  Communicator* copies_ = nullptr;
  std::unique_ptr<Communicator> own_shards_, own_copies_;  // where they are not the axis itself
};

}  // namespace ftune
