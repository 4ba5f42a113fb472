// What the ranks of a pipeline send each other: one direction between two ranks is a group of its own, so
// that transfers run beside the compute and in the order in which they are started, whatever goes the other
// way.
#pragma once

#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "parallel/comm/communicator.h"
#include "parallel/schedule/schedule.h"

namespace ftune {

class StageLinks {
 public:
  // Between the ranks whose stages follow each other. Called by all ranks of the pipeline.
  static absl::StatusOr<StageLinks> Create(Communicator& pipeline, const ScheduleShape& shape);

  // All of a contiguous tensor, which must not be touched before it has left or arrived. An error stays in
  // the link.
  Pending Send(Stream stream, const Tensor& tensor, int to);
  Pending Receive(Stream stream, const Tensor& tensor, int from);

  absl::Status status() const;
  CommTraffic traffic() const;

 private:
  struct Link {
    std::unique_ptr<Communicator> group;
    int other = 0;  // in the group
  };
  std::map<int, Link> to_, from_;  // by the other rank
};

}  // namespace ftune
