// A group of ranks that are processes of one host. How the calls move bytes is in shm_transport.cc; here is
// how the ranks meet.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parallel/comm/call.h"
#include "parallel/comm/call_timeout.h"
#include "parallel/comm/shm_host.h"
#include "parallel/comm/shm_layout.h"

namespace ftune {

class ShmGroup {
 public:
  // `members`: of the host's ranks. `id` is the same on all members and no other group's. Waits for them.
  static absl::StatusOr<std::unique_ptr<ShmGroup>> Create(std::shared_ptr<ShmHost> host, uint64_t id,
                                                          std::vector<int> members,
                                                          std::shared_ptr<CallTimeout> timeout);
  ~ShmGroup();
  ShmGroup(const ShmGroup&) = delete;
  ShmGroup& operator=(const ShmGroup&) = delete;

  const std::shared_ptr<ShmHost>& host() const { return host_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  const std::vector<int>& members() const { return members_; }
  int NameOf(int rank) const { return host_->NameOf(members_[rank]); }

  const std::shared_ptr<CallTimeout>& timeout() const { return timeout_; }

  ShmControl& control(int rank) const { return *reinterpret_cast<ShmControl*>(regions_[rank]->data()); }
  ShmControl& own() const { return control(rank_); }
  std::byte* stage(int rank, int64_t chunk) const { return control(rank).stage(size(), chunk); }

  // This rank is one step further in the group's collectives; Await: so is `rank`, AwaitAll: every other.
  // AwaitOfAll: waits for `rank` where the call needs every other's step before this rank does anything else.
  // All end with an error where a rank does not come, or waits itself for one that waits for it.
  void Step();
  absl::Status Await(int rank, const Call& call);
  absl::Status AwaitOfAll(int rank, const Call& call);
  absl::Status AwaitAll(const Call& call);
  // The same, for a counter of the channel from `rank` to this one.
  absl::Status AwaitChannel(int rank, ShmWait::Counter counter, uint32_t target, const Call& call);

  // An error where `theirs` is not this rank's call.
  absl::Status Compare(const Call& call, int rank, const CallSignature& theirs);

  // Where in shared memory a buffer of this rank is, or that it must be staged.
  ShmPlace PlaceOf(const std::byte* data, int64_t bytes) const;
  // Memory of `rank` that a call's buffer is in.
  absl::StatusOr<std::shared_ptr<ShmMemory>> Find(int rank, uint64_t memory, const Call& call);

  // Ends all with `status`, or with what ended them before.
  absl::Status Fail(const absl::Status& status);

  // A number for the next group of `members` of this one: the same on all of them.
  uint64_t NextPart(const std::vector<int>& members);

 private:
  ShmGroup(std::shared_ptr<ShmHost> host, uint64_t id, std::vector<int> members,
           std::shared_ptr<CallTimeout> timeout);
  absl::Status Await(int rank, ShmWait::Counter counter, uint32_t target, bool of_all, const Call& call);
  absl::Status SleepUntil(int rank, ShmWait::Counter counter, uint32_t target, const Call& call);
  // An error where ranks wait for each other, this one among them.
  absl::Status CheckProgress();
  absl::Status LeftError(int rank) const;
  // Null where it does not come.
  std::shared_ptr<ShmMemory> Find(int rank, uint64_t memory);
  // What `rank` lays open to this group.
  absl::StatusOr<std::shared_ptr<ShmMemory>> FindRegion(int rank, uint64_t memory);
  CallSignature Named(const CallSignature& signature) const;

  std::shared_ptr<ShmHost> host_;
  uint64_t id_;
  std::vector<int> members_;
  int rank_;
  std::shared_ptr<CallTimeout> timeout_;
  bool spins_;                                       // there is a core for each rank
  std::vector<std::shared_ptr<ShmMemory>> regions_;  // of each member
  uint32_t step_ = 0;
  std::map<std::vector<int>, uint64_t> parts_;  // how many of each
};

}  // namespace ftune
