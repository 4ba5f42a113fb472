// The collectives of a group of ranks. All ranks of a group make the same calls in the same order.
//
// An error stays: after it every call fails at once, and buffers hold anything. So code that computes may
// leave statuses alone, as long as somebody looks at status() before a result is used.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "parallel/comm/call_observer.h"
#include "parallel/comm/transport.h"

namespace ftune {

class Communicator;

// A call that was started. The default one is done.
class Pending {
 public:
  Pending() = default;
  // Until the call is done and its buffers may be used.
  absl::Status Wait();
  // Whether they may be used now: Wait would not wait. True after an error too.
  bool done() const;

 private:
  friend class Communicator;
  Pending(Communicator* communicator, uint64_t ticket) : communicator_(communicator), ticket_(ticket) {}
  Communicator* communicator_ = nullptr;
  uint64_t ticket_ = 0;
};

class CallQueue;

// What a rank's calls amounted to.
struct CommTraffic {
  int64_t calls = 0;
  int64_t bytes = 0;  // sent by this rank with ring algorithms: an all-reduce 2 (n - 1) / n of its buffer

  CommTraffic& operator+=(const CommTraffic& other) {
    calls += other.calls;
    bytes += other.bytes;
    return *this;
  }
};

// Used by one thread, but for Abort and status.
class Communicator {
 public:
  explicit Communicator(std::unique_ptr<Transport> transport);
  ~Communicator();  // waits for what was started
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Waits; runs after all that was started before. Does nothing in a group of one, but for what a copy from
  // in to out takes.
  absl::Status Run(Call call);
  // Runs in a thread of the communicator's own, in order. Buffers must not be touched before Pending::Wait.
  Pending Start(Call call);

  // The sum, or greatest, over the group.
  absl::StatusOr<double> AllReduce(double value, ReduceOp op = ReduceOp::kSum);
  absl::StatusOr<int64_t> AllReduce(int64_t value, ReduceOp op = ReduceOp::kSum);

  absl::StatusOr<SharedBytes> Allocate(int64_t bytes) { return transport_->Allocate(bytes); }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(const std::vector<int>& members);

  void set_timeout(absl::Duration timeout) { transport_->set_timeout(timeout); }
  void Abort(const absl::Status& status) { transport_->Abort(status); }
  absl::Status status() const { return transport_->status(); }

  const CommTraffic& traffic() const { return traffic_; }
  // Who hears of each call and of each wait, and outlives the group. Set while nothing is started; groups
  // that are split off later have them too.
  void set_observers(std::vector<CallObserver*> observers) { observers_ = std::move(observers); }

 private:
  friend class Pending;
  Communicator(std::unique_ptr<Transport> transport, std::vector<int> world_ranks);
  absl::Status RunNow(const Call& call, bool exposed, uint64_t ticket = 0);
  absl::Status WaitFor(uint64_t ticket);
  // Does what `span` is of, and tells the observers.
  absl::Status Observe(CommSpan span, const std::function<absl::Status()>& work);
  void Number(Call& call);

  std::unique_ptr<Transport> transport_;
  std::vector<int> world_ranks_;  // by rank in the group
  GroupRanks group_ranks_;        // the same in short
  int rank_;
  int size_;
  uint64_t calls_ = 0;
  std::vector<uint64_t> sent_, received_;  // by peer
  CommTraffic traffic_;
  std::vector<CallObserver*> observers_;
  std::unique_ptr<CallQueue> queue_;  // made by the first Start
  uint64_t started_at_once_ = 0;      // calls that needed no queue, though others would go on beside them
};

// A group of one rank.
std::unique_ptr<Communicator> MakeSingleCommunicator();

}  // namespace ftune
