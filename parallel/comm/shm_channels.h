// Sends and receives between two ranks of a host.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "parallel/comm/call.h"
#include "parallel/comm/shm_group.h"

namespace ftune {

class ShmChannels {
 public:
  explicit ShmChannels(ShmGroup& group) : group_(group), out_(group.size()), in_(group.size()) {}

  // Both return when the bytes have moved.
  absl::Status Send(const Call& call);
  absl::Status Receive(const Call& call);

 private:
  struct Progress {
    uint64_t calls = 0;
    uint32_t theirs = 0;  // what the other's counter shows when it has done its part so far
  };

  // Of the stage of `rank`.
  std::byte* Piece(int rank, int64_t piece) const;

  ShmGroup& group_;
  std::vector<Progress> out_, in_;  // by peer
};

}  // namespace ftune
