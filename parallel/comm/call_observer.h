// What somebody hears of the calls that a rank makes.
#pragma once

#include <cstdint>

#include "parallel/comm/call.h"
#include "parallel/comm/group_ranks.h"

namespace ftune {

class Communicator;

// A call, or the wait for calls that were started before; times are on Timeline::Now's clock.
struct CommSpan {
  const Communicator* group = nullptr;
  GroupRanks ranks;
  bool is_wait = false;
  uint64_t ticket = 0;        // of a call that was started, and of the wait for it
  CallSignature call;         // not known of a wait
  int64_t bytes_to_send = 0;  // by this rank, with the algorithm that sends least
  double begin = 0.0;
  double end = 0.0;  // not known yet at its begin
  // The thread that uses the group stood still for it; otherwise it ran beside.
  bool exposed = false;
  bool failed = false;
};

// Called in the thread that makes the call or waits: several at once.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  virtual void OnBegin(const CommSpan& /*span*/) {}
  virtual void OnEnd(const CommSpan& /*span*/) {}
};

}  // namespace ftune
