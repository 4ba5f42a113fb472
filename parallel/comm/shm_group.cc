#include "parallel/comm/shm_group.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/error.h"
#include "base/timeline.h"
#include "parallel/comm/mismatch.h"

namespace ftune {
namespace {

// How often who sleeps looks for an error.
constexpr absl::Duration kNap = absl::Milliseconds(50);
// Who is about to come is met twenty times sooner than by sleeping, which takes 8 us; a core is not held
// longer.
constexpr absl::Duration kSpin = absl::Microseconds(5);
constexpr uint64_t kGroupBit = uint64_t{1} << 63;  // apart from memory that was allocated

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShmGroup>> ShmGroup::Create(std::shared_ptr<ShmHost> host, uint64_t id,
                                                           std::vector<int> members,
                                                           std::shared_ptr<CallTimeout> timeout) {
  std::unique_ptr<ShmGroup> group(new ShmGroup(std::move(host), id, std::move(members), std::move(timeout)));
  const uint64_t region = id | kGroupBit;
  FTUNE_ASSIGN_OR_RETURN(std::shared_ptr<ShmMemory> own,
                         group->host_->Publish(region, ShmControl::Bytes(group->size()), group->members_));
  for (int rank = 0; rank < group->size(); ++rank) {
    if (rank == group->rank_) {
      group->regions_.push_back(own);
      continue;
    }
    FTUNE_ASSIGN_OR_RETURN(std::shared_ptr<ShmMemory> memory, group->Find(rank, region, Call::Barrier()));
    group->host_->Forget(group->members_[rank], region);
    group->regions_.push_back(std::move(memory));
  }
  return group;
}

ShmGroup::ShmGroup(std::shared_ptr<ShmHost> host, uint64_t id, std::vector<int> members,
                   std::shared_ptr<CallTimeout> timeout)
    : host_(std::move(host)),
      id_(id),
      members_(std::move(members)),
      rank_(static_cast<int>(std::find(members_.begin(), members_.end(), host_->rank()) - members_.begin())),
      timeout_(std::move(timeout)),
      spins_(host_->size() <= sysconf(_SC_NPROCESSORS_ONLN)) {}

ShmGroup::~ShmGroup() {
  // After an error the others are told of that instead.
  if (regions_.size() == members_.size() && host_->status().ok()) {
    own().left.store(true, std::memory_order_release);
  }
}

absl::Status ShmGroup::LeftError(int rank) const {
  return LostRankError(NameOf(rank), "it left while others still called it");
}

void ShmGroup::Step() {
  own().progress.Post();
  ++step_;
}

absl::Status ShmGroup::Await(int rank, const Call& call) {
  return Await(control(rank).progress, step_, rank, call);
}

absl::Status ShmGroup::AwaitAll(const Call& call) {
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_) FTUNE_RETURN_IF_ERROR(Await(rank, call));
  }
  return absl::OkStatus();
}

absl::Status ShmGroup::Await(ShmCounter& counter, uint32_t target, int rank, const Call& call) {
  if (counter.Reached(target) || (spins_ && counter.Spin(target, kSpin))) return absl::OkStatus();
  // What this rank has waited, not what the clock says: a machine that was asleep has not waited.
  absl::Duration waited;
  const absl::Duration timeout = timeout_->get();
  while (true) {
    FTUNE_RETURN_IF_ERROR(host_->status());
    // Read before the counter: who left may have come first.
    const bool left = control(rank).left.load(std::memory_order_acquire);
    if (counter.Reached(target)) return absl::OkStatus();
    if (left) return Fail(LeftError(rank));
    if (waited >= timeout) return Fail(TimeoutError(NameOf(rank), Named(call.signature()), timeout));
    const double before = Timeline::Now();
    counter.Sleep(target, std::min(timeout - waited, kNap));
    waited += std::min(absl::Seconds(Timeline::Now() - before), 2 * kNap);
  }
}

CallSignature ShmGroup::Named(const CallSignature& signature) const {
  CallSignature named = signature;
  if (named.root >= 0 && named.root < size()) named.root = NameOf(named.root);
  return named;
}

absl::Status ShmGroup::Compare(const Call& call, int rank, const CallSignature& theirs) {
  const CallSignature mine = call.signature();
  if (theirs == mine) return absl::OkStatus();
  return Fail(MismatchError(NameOf(rank_), Named(mine), NameOf(rank), Named(theirs)));
}

ShmPlace ShmGroup::PlaceOf(const std::byte* data, int64_t bytes) const {
  ShmHost::Place place;
  if (!host_->Locate(data, bytes, place)) return {.kind = ShmPlace::kStage};
  return {.kind = ShmPlace::kMemory, .memory = place.memory, .offset = place.offset};
}

absl::StatusOr<std::shared_ptr<ShmMemory>> ShmGroup::Find(int rank, uint64_t memory, const Call& call) {
  std::shared_ptr<ShmMemory> found =
      host_->Find(members_[rank], memory, absl::Now() + std::min(timeout_->get(), absl::Hours(24 * 365)));
  if (found) return found;
  if (host_->HasLeft(members_[rank])) return Fail(LeftError(rank));
  return Fail(TimeoutError(NameOf(rank), Named(call.signature()), timeout_->get()));
}

absl::Status ShmGroup::Fail(const absl::Status& status) {
  host_->Abort(status);
  return host_->status();
}

uint64_t ShmGroup::NextPart(const std::vector<int>& members) {
  uint64_t hash = Mix(Mix(id_, 1), parts_[members]++);
  for (const int member : members) hash = Mix(hash, static_cast<uint64_t>(member));
  return hash;
}

}  // namespace ftune
