// Collectives of which a test leaves some out, on all ranks alike, or spoils their results on one.
#pragma once

#include <algorithm>
#include <compare>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "parallel/mesh.h"

namespace ftune::testing {

// A collective of a run, in terms that are the same on all ranks: the group ("world", "tensor", "data",
// "data/2x1", a part of two neighbours, or "pipeline/0-3#1", the second one of those two), the barriers that
// the group had before, and the calls since the last. In parallel groups it is the same place.
struct CallPlace {
  std::string group;
  int phase = 0;
  int index = 0;
  auto operator<=>(const CallPlace&) const = default;
};

struct LoggedCall {
  CallPlace place;
  CallSignature signature;

  std::string Describe() const {
    return StrCat(place.group, " ", place.phase, ".", place.index, " ", signature.Describe());
  }
};

struct CallFaults {
  std::set<CallPlace> left_out;
  // Its result is not a number on the first rank of the world alone.
  std::optional<CallPlace> spoiled;
};

// What the first ranks of the groups called, group by group in their order; of parallel groups one.
class CallLog {
 public:
  void Add(LoggedCall call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
  }
  std::vector<LoggedCall> Take() {
    std::stable_sort(calls_.begin(), calls_.end(),
                     [](const LoggedCall& a, const LoggedCall& b) { return a.place < b.place; });
    const auto same = [](const LoggedCall& a, const LoggedCall& b) { return a.place == b.place; };
    calls_.erase(std::unique(calls_.begin(), calls_.end(), same), calls_.end());
    return std::exchange(calls_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<LoggedCall> calls_;
};

class FaultyTransport final : public Transport {
 public:
  // Of the world. The faults and the log, if any, outlive it.
  FaultyTransport(std::unique_ptr<Transport> under, const MeshShape& shape, const CallFaults& faults,
                  CallLog* log)
      : FaultyTransport(std::move(under), shape, faults, log, "world", {}) {}

  int rank() const override { return under_->rank(); }
  int size() const override { return under_->size(); }
  absl::Status Run(const Call& call) override {
    if (call.kind == CallKind::kBarrier) {
      ++place_.phase;
      place_.index = 0;
      return under_->Run(call);
    }
    const CallPlace place = place_;
    ++place_.index;
    if (log_ != nullptr && rank() == 0) log_->Add({place, call.signature()});
    if (faults_.left_out.contains(place)) {
      LeaveOut(call);
      return absl::OkStatus();
    }
    absl::Status status = under_->Run(call);
    if (faults_.spoiled == place && world_rank_ == 0) Spoil(call.in);
    return status;
  }
  absl::StatusOr<SharedBytes> Allocate(int64_t bytes) override { return under_->Allocate(bytes); }
  absl::StatusOr<std::unique_ptr<Transport>> Split(const std::vector<int>& members) override {
    FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<Transport> part, under_->Split(members));
    std::string group = PartName(members);
    for (const MeshAxis axis : {MeshAxis::kTensor, MeshAxis::kData, MeshAxis::kPipeline}) {
      if (place_.group == "world" && members == shape_.GroupOf(rank(), axis)) group = Name(axis);
    }
    return std::unique_ptr<Transport>(
        new FaultyTransport(std::move(part), shape_, faults_, log_, std::move(group), world_rank_));
  }
  void set_timeout(absl::Duration timeout) override { under_->set_timeout(timeout); }
  void Abort(const absl::Status& status) override { under_->Abort(status); }
  absl::Status status() const override { return under_->status(); }

 private:
  FaultyTransport(std::unique_ptr<Transport> under, const MeshShape& shape, const CallFaults& faults,
                  CallLog* log, std::string group, std::optional<int> world_rank)
      : under_(std::move(under)),
        shape_(shape),
        faults_(faults),
        log_(log),
        world_rank_(world_rank.value_or(under_->rank())),
        place_{.group = std::move(group)} {}

  // Stages are not alike: their groups are parallel on other axes alone.
  std::string PartName(const std::vector<int>& members) {
    if (place_.group != Name(MeshAxis::kPipeline)) {
      const int stride = members.size() > 1 ? members[1] - members[0] : 0;
      return StrCat(place_.group, "/", members.size(), "x", stride);
    }
    return StrCat(place_.group, "/", members.front(), "-", members.back(), "#", parts_[members]++);
  }

  // Each rank keeps what it has; what others would have given is anything, or in place what was there.
  void LeaveOut(const Call& call) const {
    switch (call.kind) {
      case CallKind::kAllReduce:
      case CallKind::kBroadcast:
      case CallKind::kSend:
        return;
      case CallKind::kReceive:
        std::memset(call.out.data, 0, call.out.bytes());
        return;
      case CallKind::kReduceScatter:
        return Move(call.in.data + BytesFor(call.in.dtype, Offsets(call.counts)[rank()]), call.out.data,
                    call.out.bytes());
      case CallKind::kAllGather: {
        std::byte* const own = call.out.data + BytesFor(call.out.dtype, Offsets(call.counts)[rank()]);
        if (call.in.data == own) return;
        constexpr int kNotANumber = 0xff;
        const std::vector<std::byte> kept(call.in.data, call.in.data + call.in.bytes());
        std::memset(call.out.data, kNotANumber, call.out.bytes());
        return Move(kept.data(), own, call.in.bytes());
      }
      default:
        FAIL("no step calls ", std::string(Name(call.kind)));
    }
  }
  static void Move(const std::byte* from, std::byte* to, int64_t bytes) {
    if (bytes > 0) std::memmove(to, from, bytes);
  }
  static void Spoil(const Buffer& buffer) {
    REQUIRE(buffer.dtype == DType::kF64);
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    std::memcpy(buffer.data, &kNaN, sizeof(kNaN));
  }

  std::unique_ptr<Transport> under_;
  MeshShape shape_;
  const CallFaults& faults_;
  CallLog* log_;
  int world_rank_;
  CallPlace place_;                        // of the next call
  std::map<std::vector<int>, int> parts_;  // how many were split off, by members
};

}  // namespace ftune::testing
