// How the ranks of a group move bytes: shared memory, sockets, threads of one process. A communicator stands
// in front of it, which numbers the calls and runs them in order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parallel/comm/call.h"

namespace ftune {

// Memory for flat buffers that are reduced or gathered: whole pages, zero.
struct SharedBytes {
  std::shared_ptr<std::byte> data;
  int64_t bytes = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;  // in the group
  virtual int size() const = 0;
  // Run never waits for others: nothing is gained by a thread for it.
  virtual bool returns_at_once() const { return false; }

  // Returns when this rank may use its buffers again. An error where the ranks do not make the same call (it
  // names two of them and what each called), where one of them is gone, where the time-out passed (an error
  // of kTimeout names who was waited for), or after Abort. After an error every further call fails with it.
  // Calls with wrong sizes are the caller's fault and checked before.
  virtual absl::Status Run(const Call& call) = 0;

  // Called by all ranks of the group alike. Calls on such memory stage nothing.
  virtual absl::StatusOr<SharedBytes> Allocate(int64_t bytes) = 0;

  // A group of some of this one's ranks, in ascending order, of which this is one. Called by all its members.
  virtual absl::StatusOr<std::unique_ptr<Transport>> Split(const std::vector<int>& members) = 0;

  // Of each wait within a call, of this group's and of all that were and will be split off from it.
  virtual void set_timeout(absl::Duration timeout) = 0;

  // From any thread: this rank's calls fail with `status`, and so do those of the others, who are told. The
  // first status stays.
  virtual void Abort(const absl::Status& status) = 0;
  virtual absl::Status status() const = 0;  // of any thread; OK until an error
};

}  // namespace ftune
