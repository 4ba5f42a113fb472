#include "parallel/comm/thread_transport.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "parallel/comm/call_timeout.h"
#include "parallel/comm/circle.h"
#include "parallel/comm/copy_bytes.h"
#include "parallel/comm/mismatch.h"
#include "parallel/comm/reduce.h"
#include "parallel/comm/single_transport.h"

namespace ftune {
namespace {

// What a group's threads share.
class ThreadGroup {
 public:
  explicit ThreadGroup(int size)
      : size_(size),
        here_(size, false),
        calls_(size, nullptr),
        signatures_(size),
        waits_(size),
        mail_(size * size) {}

  int size() const { return size_; }

  void Abort(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    status_.Update(status);
    changed_.notify_all();
    for (auto& [members, part] : parts_) part->Abort(status);
    for (const auto& taken : all_parts_) {
      if (const auto part = taken.lock()) part->Abort(status);
    }
  }

  absl::Status status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }

  // Waits until all ranks are here with a call, and checks that it is the same.
  absl::Status Meet(int rank, const Call& call, absl::Duration timeout) {
    {
      const std::lock_guard lock(mutex_);
      // After an error others may still compare what stands here.
      FTUNE_RETURN_IF_ERROR(status_);
      calls_[rank] = &call;
      signatures_[rank] = call.signature();
    }
    FTUNE_RETURN_IF_ERROR(Barrier(rank, call, timeout));
    for (int other = 0; other < size_; ++other) {
      if (AreOneCall(signatures_[rank], signatures_[other])) continue;
      Abort(MismatchError({{rank, signatures_[rank]}, {other, signatures_[other]}}));
      return status();
    }
    return absl::OkStatus();
  }

  absl::Status Barrier(int rank, const Call& call, absl::Duration timeout) {
    std::unique_lock lock(mutex_);
    FTUNE_RETURN_IF_ERROR(status_);
    const uint64_t round = round_;
    here_[rank] = true;
    if (std::find(here_.begin(), here_.end(), false) == here_.end()) {
      here_.assign(size_, false);
      ++round_;
      changed_.notify_all();
      return status_;
    }
    if (!Wait(lock, rank, {.call = &call, .count = round}, timeout)) {
      const auto missing = std::find(here_.begin(), here_.end(), false);
      status_.Update(
          TimeoutError(static_cast<int>(missing - here_.begin()), call.signature().Describe(), timeout));
      changed_.notify_all();
    }
    return status_;
  }

  const Call& call(int rank) const { return *calls_[rank]; }

  // One message from a rank to another, in the order of the calls.
  absl::Status Deliver(int from, int to, const Call& call, bool sends, absl::Duration timeout) {
    std::unique_lock lock(mutex_);
    Mail& mail = mail_[from * size_ + to];
    const Call*& own = sends ? mail.sent : mail.received;
    const Call*& other = sends ? mail.received : mail.sent;
    own = &call;
    changed_.notify_all();
    const uint64_t before = mail.delivered;
    if (!Wait(lock, sends ? from : to, {.call = &call, .count = before, .mail = &mail}, timeout)) {
      status_.Update(TimeoutError(sends ? to : from, call.signature().Describe(), timeout));
      changed_.notify_all();
    }
    if (!status_.ok()) return status_;
    if (mail.delivered == before) {  // the second to come moves the bytes
      const CallSignature mine = call.signature(), theirs = other->signature();
      if (!AreOneCall(mine, theirs)) {
        status_.Update(MismatchError({{sends ? from : to, mine}, {sends ? to : from, theirs}}));
      } else {
        const Call& source = sends ? call : *other;
        const Call& target = sends ? *other : call;
        CopyBytes(source.in.data, source.in.bytes(), target.out.data);
      }
      mail.sent = mail.received = nullptr;
      ++mail.delivered;
      changed_.notify_all();
    }
    return status_;
  }

  std::shared_ptr<ThreadGroup> Part(int rank, const std::vector<int>& members) {
    const std::lock_guard lock(mutex_);
    // A rank's second split into the same ranks is another group.
    const Split split = {members, splits_[{rank, members}]++};
    auto& part = parts_[split];
    if (!part) part = std::make_shared<ThreadGroup>(static_cast<int>(members.size()));
    const std::shared_ptr<ThreadGroup> taken = part;
    if (++taken->takers_ == taken->size()) {
      all_parts_.push_back(taken);
      parts_.erase(split);
    }
    return taken;
  }

 private:
  struct Mail {
    const Call* sent = nullptr;
    const Call* received = nullptr;
    uint64_t delivered = 0;
  };
  // Of one rank, while it waits.
  struct Waiting {
    const Call* call = nullptr;
    uint64_t count = 0;          // the round, or what was delivered
    const Mail* mail = nullptr;  // or for all ranks
  };

  bool Goes(const Waiting& wait) const {
    if (!status_.ok()) return true;
    if (wait.mail == nullptr) return round_ != wait.count;
    return wait.mail->delivered != wait.count ||
           (wait.mail->sent != nullptr && wait.mail->received != nullptr);
  }

  // Whether it may go on: false where the time has passed. Ranks that wait for each other fail at once.
  bool Wait(std::unique_lock<std::mutex>& lock, int rank, const Waiting& wait, absl::Duration timeout) {
    waits_[rank] = wait;
    const std::vector<int> circle = FindCircle(rank, size_, [&](int from, int to) {
      const Waiting& w = waits_[from];
      if (w.call == nullptr || Goes(w)) return false;
      return w.mail != nullptr ? w.call->peer == to : !here_[to];
    });
    if (!circle.empty()) {
      std::vector<RankCall> calls;
      for (const int r : circle) calls.push_back({r, waits_[r].call->signature()});
      status_.Update(MismatchError(calls));
      changed_.notify_all();
    }
    const bool goes = changed_.wait_for(lock, absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(24))),
                                        [&] { return Goes(wait); });
    waits_[rank] = {};
    return goes;
  }

  int size_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status status_;
  std::vector<bool> here_;  // at the barrier of this round
  uint64_t round_ = 0;
  std::vector<const Call*> calls_;
  std::vector<CallSignature> signatures_;  // apart: a rank that fails takes its call away
  std::vector<Waiting> waits_;
  std::vector<Mail> mail_;
  using Split = std::pair<std::vector<int>, int>;  // members, and which of their splits it is
  std::map<std::pair<int, std::vector<int>>, int> splits_;
  std::map<Split, std::shared_ptr<ThreadGroup>> parts_;
  std::vector<std::weak_ptr<ThreadGroup>> all_parts_;
  int takers_ = 0;
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<ThreadGroup> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

  absl::Status Run(const Call& call) override {
    if (call.kind == CallKind::kSend) return group_->Deliver(rank_, call.peer, call, true, timeout_->get());
    if (call.kind == CallKind::kReceive)
      return group_->Deliver(call.peer, rank_, call, false, timeout_->get());
    FTUNE_RETURN_IF_ERROR(group_->Meet(rank_, call, timeout_->get()));
    FTUNE_RETURN_IF_ERROR(Move(call));
    // Nobody's buffer may change before all have read it.
    return group_->Barrier(rank_, call, timeout_->get());
  }

  absl::StatusOr<SharedBytes> Allocate(int64_t bytes) override { return AllocatePages(bytes); }

  absl::StatusOr<std::unique_ptr<Transport>> Split(const std::vector<int>& members) override {
    const auto place = std::find(members.begin(), members.end(), rank_);
    auto part = std::make_unique<ThreadTransport>(group_->Part(rank_, members),
                                                  static_cast<int>(place - members.begin()));
    part->timeout_ = timeout_;
    return part;
  }

  void set_timeout(absl::Duration timeout) override { timeout_->set(timeout); }
  void Abort(const absl::Status& status) override { group_->Abort(status); }
  absl::Status status() const override { return group_->status(); }

 private:
  absl::Status Move(const Call& call) {
    switch (call.kind) {
      case CallKind::kAllReduce:
        return AllReduce(call);
      case CallKind::kReduceScatter: {
        const int64_t begin = Offsets(call.counts)[rank_];
        // `out` may lie in `in`, where others still read.
        ReduceFrom(call, begin, call.counts[rank_], call.out.data);
        return absl::OkStatus();
      }
      case CallKind::kAllGather: {
        const std::vector<int64_t> offsets = Offsets(call.counts);
        for (int other = 0; other < size(); ++other) {
          std::byte* place = call.out.data + BytesFor(call.out.dtype, offsets[other]);
          Copy(group_->call(other).in.data, call.in.dtype, call.counts[other], place);
        }
        return absl::OkStatus();
      }
      case CallKind::kBroadcast:
        if (rank_ != call.peer)
          Copy(group_->call(call.peer).in.data, call.in.dtype, call.in.count, call.out.data);
        return absl::OkStatus();
      case CallKind::kAllToAll:
        return AllToAll(call);
      default:
        return absl::OkStatus();
    }
  }

  void Copy(const std::byte* from, DType dtype, int64_t count, std::byte* to) {
    if (from != to && count > 0) std::memcpy(to, from, static_cast<size_t>(BytesFor(dtype, count)));
  }

  // Elements [begin, begin + count) of all ranks' `in`.
  void ReduceFrom(const Call& call, int64_t begin, int64_t count, std::byte* out) {
    std::vector<const std::byte*> sources;
    for (int other = 0; other < size(); ++other) {
      sources.push_back(group_->call(other).in.data + BytesFor(call.in.dtype, begin));
    }
    if (count > 0) Reduce(call.in.dtype, call.op, sources, count, out);
  }

  // Each rank reduces a share in its own buffer, which no other reads before; then all take all shares.
  absl::Status AllReduce(const Call& call) {
    const std::vector<int64_t> counts = EvenCounts(call.in.count, size(), 16);
    const std::vector<int64_t> offsets = Offsets(counts);
    const auto at = [&](const Buffer& buffer, int share) {
      return buffer.data + BytesFor(buffer.dtype, offsets[share]);
    };
    ReduceFrom(call, offsets[rank_], counts[rank_], at(call.out, rank_));
    FTUNE_RETURN_IF_ERROR(group_->Barrier(rank_, call, timeout_->get()));
    for (int other = 0; other < size(); ++other) {
      if (other == rank_) continue;
      Copy(at(group_->call(other).out, other), call.in.dtype, counts[other], at(call.out, other));
    }
    return absl::OkStatus();
  }

  absl::Status AllToAll(const Call& call) {
    const std::vector<int64_t> offsets = Offsets(call.out_counts);
    for (int other = 0; other < size(); ++other) {
      const Call& source = group_->call(other);
      if (source.counts[rank_] != call.out_counts[other]) {
        const absl::Status error =
            CountMismatchError(rank_, call.out_counts[other], other, source.counts[rank_]);
        group_->Abort(error);
        return group_->status();
      }
      Copy(source.in.data + BytesFor(call.in.dtype, Offsets(source.counts)[rank_]), call.in.dtype,
           call.out_counts[other], call.out.data + BytesFor(call.out.dtype, offsets[other]));
    }
    return absl::OkStatus();
  }

  std::shared_ptr<ThreadGroup> group_;
  int rank_;
  std::shared_ptr<CallTimeout> timeout_ = std::make_shared<CallTimeout>();
};

}  // namespace

std::vector<std::unique_ptr<Transport>> MakeThreadTransports(int ranks) {
  if (ranks == 1) {
    std::vector<std::unique_ptr<Transport>> single;
    single.push_back(std::make_unique<SingleTransport>());
    return single;
  }
  const auto group = std::make_shared<ThreadGroup>(ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank)
    transports.push_back(std::make_unique<ThreadTransport>(group, rank));
  return transports;
}

}  // namespace ftune
