#include "engine/shard/data_groups.h"

#include <vector>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

absl::StatusOr<DataGroups> DataGroups::Create(Mesh& mesh, const ShardOptions& options) {
  Communicator& axis = mesh.axis(MeshAxis::kData);
  const int asked = options.shard_size == 0 ? axis.size() : options.shard_size;
  if (asked < 1 || axis.size() % asked != 0) {
    return UsageError({.key = "parallel.shard_size",
                       .found = StrCat(asked),
                       .expected = StrCat("a divisor of parallel.data, which is ", axis.size())});
  }
  const int size = options.zero == 0 ? 1 : asked;
  DataGroups groups;
  if (size == 1) {
    groups.own_shards_ = MakeSingleCommunicator();
    groups.copies_ = &axis;
  } else if (size == axis.size()) {
    groups.own_copies_ = MakeSingleCommunicator();
    groups.shards_ = &axis;
  } else {
    std::vector<int> neighbours, peers;
    for (int i = 0; i < size; ++i) neighbours.push_back(axis.rank() / size * size + i);
    for (int i = axis.rank() % size; i < axis.size(); i += size) peers.push_back(i);
    FTUNE_ASSIGN_OR_RETURN(groups.own_shards_, axis.Split(neighbours));
    FTUNE_ASSIGN_OR_RETURN(groups.own_copies_, axis.Split(peers));
  }
  if (groups.own_shards_) groups.shards_ = groups.own_shards_.get();
  if (groups.own_copies_) groups.copies_ = groups.own_copies_.get();
  return groups;
}

CommTraffic DataGroups::traffic() const {
  CommTraffic total;
  if (own_shards_) total += own_shards_->traffic();
  if (own_copies_) total += own_copies_->traffic();
  return total;
}

absl::Status DataGroups::status() const {
  FTUNE_RETURN_IF_ERROR(shards_->status());
  return copies_->status();
}

}  // namespace ftune
