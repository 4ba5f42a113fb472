// A page of memory on which a rank shows what it does. Who started it reads that without the rank's help:
// also of one that is stopped, stuck or dead.
#pragma once

#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "base/descriptor.h"
#include "parallel/comm/call.h"
#include "parallel/comm/group_ranks.h"
#include "parallel/launch/pulse.h"

namespace ftune {

// What is on the page: a Pulse as plain memory.
struct PulseRecord {
  int64_t step = 0;
  int64_t total_steps = 0;
  int64_t micro_batch = -1;
  uint64_t calls = 0;
  double changed = 0.0;  // on Timeline::Now's clock, which all processes of a host share
  double step_seconds = 0.0;
  double compute_seconds = 0.0;
  double wait_seconds = 0.0;
  double data_wait_seconds = 0.0;
  std::array<int64_t, kCallKinds> network_bytes = {};
  CallSignature call;
  GroupRanks group;                 // of that call; of no ranks: it waits in none
  std::array<char, 32> phase = {};  // ends with a zero
};

class PulsePage {
 public:
  PulsePage() = default;  // no page: nothing is ever seen there
  // A new one, which another process can have by its descriptor.
  static absl::StatusOr<PulsePage> Create();
  // That of another process, whose descriptor may be closed then.
  static absl::StatusOr<PulsePage> Map(int descriptor);

  int descriptor() const { return file_.get(); }

  // By one thread at a time, of one process.
  void Write(const PulseRecord& record);
  // What was written last, and the memory of the process that writes. From any thread of any process.
  Pulse Look(pid_t writer = getpid()) const;

 private:
  struct Layout;
  static absl::StatusOr<PulsePage> MapFile(int descriptor);

  Descriptor file_;  // of one that was made here
  std::shared_ptr<Layout> layout_;
};

}  // namespace ftune
