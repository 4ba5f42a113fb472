#include "parallel/comm/shm_group.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/error.h"
#include "base/timeline.h"
#include "parallel/comm/circle.h"
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
    FTUNE_ASSIGN_OR_RETURN(std::shared_ptr<ShmMemory> memory, group->FindRegion(rank, region));
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
  return Await(rank, ShmWait::kProgress, step_, false, call);
}

absl::Status ShmGroup::AwaitOfAll(int rank, const Call& call) {
  return Await(rank, ShmWait::kProgress, step_, true, call);
}

absl::Status ShmGroup::AwaitAll(const Call& call) {
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_) FTUNE_RETURN_IF_ERROR(AwaitOfAll(rank, call));
  }
  return absl::OkStatus();
}

absl::Status ShmGroup::AwaitChannel(int rank, ShmWait::Counter counter, uint32_t target, const Call& call) {
  return Await(rank, counter, target, false, call);
}

absl::Status ShmGroup::Await(int rank, ShmWait::Counter which, uint32_t target, bool of_all,
                             const Call& call) {
  const ShmCounter& counter = control(rank).counter(which, rank_);
  if (counter.Reached(target) || (spins_ && counter.Spin(target, kSpin))) return absl::OkStatus();
  ShmWait& wait = own().wait;
  wait.peer.store(of_all ? -1 : rank, std::memory_order_relaxed);
  wait.counter.store(which, std::memory_order_relaxed);
  wait.target.store(target, std::memory_order_relaxed);
  wait.call = Named(call.signature());
  ++wait.version;
  const absl::Status status = SleepUntil(rank, which, target, call);
  ++wait.version;
  return status;
}

// A rank that waits does nothing before what it waits for has come. So ranks that wait for each other in a
// circle, all of them at one moment, do so for ever.
absl::Status ShmGroup::CheckProgress() {
  std::vector<uint32_t> versions(size());
  const auto waits_for = [&](int from, int to) {
    const ShmWait& wait = control(from).wait;
    const int32_t peer = wait.peer.load(std::memory_order_relaxed);
    const auto which = wait.counter.load(std::memory_order_relaxed);
    const uint32_t target = wait.target.load(std::memory_order_relaxed);
    return (peer < 0 || peer == to) && !control(to).counter(which, from).Reached(target);
  };
  const std::vector<int> circle = FindCircle(rank_, size(), [&](int from, int to) {
    const uint32_t version = control(from).wait.version;
    if (version % 2 == 0 || (versions[from] != 0 && versions[from] != version)) return false;
    versions[from] = version;
    return waits_for(from, to);
  });
  if (circle.empty()) return absl::OkStatus();
  std::vector<RankCall> calls;
  // All were seen to wait, one after another. If none has stopped since, there was a moment when all did.
  for (size_t i = 0; i < circle.size(); ++i) {
    const ShmWait& wait = control(circle[i]).wait;
    if (!waits_for(circle[i], circle[(i + 1) % circle.size()])) return absl::OkStatus();
    if (wait.version != versions[circle[i]]) return absl::OkStatus();
    calls.push_back({NameOf(circle[i]), wait.call});
  }
  return Fail(MismatchError(calls));
}

absl::Status ShmGroup::SleepUntil(int rank, ShmWait::Counter which, uint32_t target, const Call& call) {
  ShmCounter& counter = control(rank).counter(which, rank_);
  // What this rank has waited, not what the clock says: a machine that was asleep has not waited.
  absl::Duration waited;
  const absl::Duration timeout = timeout_->get();
  while (true) {
    FTUNE_RETURN_IF_ERROR(host_->status());
    // Read before the counter: who left may have come first.
    const bool left = control(rank).left.load(std::memory_order_acquire);
    if (counter.Reached(target)) return absl::OkStatus();
    if (left) return Fail(LeftError(rank));
    if (waited >= timeout)
      return Fail(TimeoutError(NameOf(rank), Named(call.signature()).Describe(), timeout));
    FTUNE_RETURN_IF_ERROR(CheckProgress());
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
  if (AreOneCall(mine, theirs)) return absl::OkStatus();
  return Fail(MismatchError({{NameOf(rank_), Named(mine)}, {NameOf(rank), Named(theirs)}}));
}

ShmPlace ShmGroup::PlaceOf(const std::byte* data, int64_t bytes) const {
  ShmHost::Place place;
  if (!host_->Locate(data, bytes, place)) return {.kind = ShmPlace::kStage};
  return {.kind = ShmPlace::kMemory, .memory = place.memory, .offset = place.offset};
}

std::shared_ptr<ShmMemory> ShmGroup::Find(int rank, uint64_t memory) {
  return host_->Find(members_[rank], memory, absl::Now() + std::min(timeout_->get(), absl::Hours(24 * 365)));
}

absl::StatusOr<std::shared_ptr<ShmMemory>> ShmGroup::Find(int rank, uint64_t memory, const Call& call) {
  if (std::shared_ptr<ShmMemory> found = Find(rank, memory)) return found;
  if (host_->HasLeft(members_[rank])) return Fail(LeftError(rank));
  return Fail(TimeoutError(NameOf(rank), Named(call.signature()).Describe(), timeout_->get()));
}

absl::StatusOr<std::shared_ptr<ShmMemory>> ShmGroup::FindRegion(int rank, uint64_t memory) {
  if (std::shared_ptr<ShmMemory> found = Find(rank, memory)) return found;
  if (host_->HasLeft(members_[rank])) return Fail(LeftError(rank));
  std::vector<int> names;
  for (int member = 0; member < size(); ++member) names.push_back(NameOf(member));
  return Fail(NoMemberError(NameOf(rank), names, timeout_->get()));
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
