#include "parallel/comm/hierarchical_transport.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/convert.h"
#include "base/error.h"
#include "parallel/comm/reduce.h"
#include "parallel/comm/single_transport.h"

namespace ftune {
namespace {

// Elements of bf16 or f16 that are reduced at a time, in f32.
constexpr int64_t kStaged = 1 << 20;

// In which ranks of different hosts agree on the cause of a time-out.
constexpr absl::Duration kSettling = absl::Seconds(2);

Buffer Part(const Buffer& buffer, int64_t begin, int64_t count) {
  Buffer part = buffer;
  part.data += BytesFor(buffer.dtype, begin);
  part.count = count;
  return part;
}

bool IsLow(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }
// What sums are made in.
DType WideOf(DType dtype) { return IsLow(dtype) ? DType::kF32 : dtype; }

void Widen(const Buffer& from, const Buffer& to) {
  ConvertToF32(from.dtype, from.data, from.count, reinterpret_cast<float*>(to.data));
}

// Memory of this rank alone.
class Room {
 public:
  absl::StatusOr<Buffer> Get(DType dtype, int64_t count) {
    if (pages_.bytes < BytesFor(dtype, count)) {
      FTUNE_ASSIGN_OR_RETURN(pages_, AllocatePages(BytesFor(dtype, count)));
    }
    return Buffer{pages_.data.get(), count, dtype, {}};
  }

 private:
  SharedBytes pages_;
};

class HierarchicalTransport final : public Transport {
 public:
  HierarchicalTransport(std::vector<int> hosts, int host, std::unique_ptr<Transport> inner,
                        std::unique_ptr<Transport> outer)
      : hosts_(std::move(hosts)),
        first_(hosts_.size() + 1, 0),
        host_(host),
        even_(std::count(hosts_.begin(), hosts_.end(), hosts_[0]) == std::ssize(hosts_)),
        inner_(std::move(inner)),
        outer_(std::move(outer)) {
    std::partial_sum(hosts_.begin(), hosts_.end(), first_.begin() + 1);
  }

  // Before anything else.
  absl::Status Connect() {
    if (!even_ && !leads()) return absl::OkStatus();
    std::vector<int> members;
    for (int host = 0; host < std::ssize(hosts_); ++host) members.push_back(first_[host] + place());
    FTUNE_ASSIGN_OR_RETURN(between_, outer_->Split(members));
    return absl::OkStatus();
  }

  int rank() const override { return outer_->rank(); }
  int size() const override { return outer_->size(); }

  absl::Status Run(const Call& call) override {
    absl::Status status = this->status();
    if (status.ok()) status = RunSteps(call);
    // The other hosts do not see what went wrong inside this one, and this one not what did between them.
    if (!status.ok()) Abort(status);
    return this->status();
  }

  // What stays inside the host stages nothing.
  absl::StatusOr<SharedBytes> Allocate(int64_t bytes) override { return inner_->Allocate(bytes); }

  absl::StatusOr<std::unique_ptr<Transport>> Split(const std::vector<int>& members) override {
    FTUNE_RETURN_IF_ERROR(status());
    std::vector<int> hosts, inside;  // ranks a host; those of this one
    for (int host = 0; host < std::ssize(hosts_); ++host) {
      int count = 0;
      for (const int member : members) {
        if (member < first_[host] || member >= first_[host + 1]) continue;
        ++count;
        if (host == host_) inside.push_back(member - first_[host]);
      }
      if (count > 0) hosts.push_back(count);
    }
    if (hosts.size() == 1) return inner_->Split(inside);
    FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<Transport> outer, outer_->Split(members));
    if (*std::max_element(hosts.begin(), hosts.end()) == 1) return outer;
    std::unique_ptr<Transport> inner = std::make_unique<SingleTransport>();
    if (inside.size() > 1) {
      FTUNE_ASSIGN_OR_RETURN(inner, inner_->Split(inside));
    }
    return MakeHierarchicalTransport(hosts, std::move(inner), std::move(outer));
  }

  void set_timeout(absl::Duration timeout) override {
    // Who waits inside may wait for one that waits between hosts, which has the cause.
    inner_->set_timeout(timeout + kSettling);
    outer_->set_timeout(timeout);
    if (between_) between_->set_timeout(timeout);
  }

  void Abort(const absl::Status& status) override {
    {
      const std::lock_guard lock(mutex_);
      if (!status_.ok()) return;
      status_ = status;
    }
    inner_->Abort(status);
    outer_->Abort(status);
    if (between_) between_->Abort(status);
  }

  absl::Status status() const override {
    {
      const std::lock_guard lock(mutex_);
      if (!status_.ok()) return status_;
    }
    FTUNE_RETURN_IF_ERROR(inner_->status());
    FTUNE_RETURN_IF_ERROR(outer_->status());
    return between_ ? between_->status() : absl::OkStatus();
  }

 private:
  int place() const { return inner_->rank(); }  // in the host
  bool leads() const { return place() == 0; }
  int HostOf(int rank) const {
    return static_cast<int>(std::upper_bound(first_.begin(), first_.end(), rank) - first_.begin()) - 1;
  }
  std::vector<int64_t> CountsOf(int host, const std::vector<int64_t>& counts) const {
    return {counts.begin() + first_[host], counts.begin() + first_[host + 1]};
  }

  // A step of `call`: ranks compare what the whole is.
  static absl::Status Step(const Call& call, Transport& group, Call step) {
    step.part_of = call.signature();
    return group.Run(step);
  }

  absl::Status RunSteps(const Call& call) {
    switch (call.kind) {
      case CallKind::kAllReduce:
        return AllReduce(call, call.out);
      case CallKind::kReduceScatter:
        return even_ ? ReduceScatterEven(call) : ReduceScatterUneven(call);
      case CallKind::kAllGather:
        return even_ ? AllGatherEven(call) : AllGatherUneven(call);
      case CallKind::kBroadcast:
        return Broadcast(call);
      case CallKind::kAllToAll:  // every rank has something else for every other: nothing is saved by steps
        return outer_->Run(call);
      case CallKind::kSend:
      case CallKind::kReceive: {
        if (HostOf(call.peer) != host_) return outer_->Run(call);
        Call inside = call;
        inside.peer = call.peer - first_[host_];
        return inner_->Run(inside);
      }
      case CallKind::kBarrier:
        FTUNE_RETURN_IF_ERROR(Step(call, *inner_, Call::Barrier()));
        if (leads()) FTUNE_RETURN_IF_ERROR(Step(call, *between_, Call::Barrier()));
        return Step(call, *inner_, Call::Barrier());
    }
    return absl::OkStatus();
  }

  // Averages are sums until all are added.
  static ReduceOp StepOp(const Call& call) {
    return call.op == ReduceOp::kAverage ? ReduceOp::kSum : call.op;
  }

  // The reduction of all ranks, as it is summed, to what was asked for.
  void Finish(const Call& call, const Buffer& sum, const Buffer& out) const {
    if (call.op == ReduceOp::kAverage) SumToAverage(sum.dtype, size(), sum.count, sum.data);
    if (IsLow(out.dtype)) {
      ConvertFromF32(out.dtype, reinterpret_cast<const float*>(sum.data), sum.count, out.data);
    } else if (sum.data != out.data && sum.count > 0) {
      std::memcpy(out.data, sum.data, static_cast<size_t>(sum.bytes()));
    }
  }

  absl::Status AllReduce(const Call& call, const Buffer& buffer) {
    if (!IsLow(buffer.dtype)) return AllReducePiece(call, buffer, buffer);
    if (!staged_.data) {
      FTUNE_ASSIGN_OR_RETURN(staged_, inner_->Allocate(BytesFor(DType::kF32, kStaged)));
    }
    int64_t begin = 0;
    do {
      const Buffer piece = Part(buffer, begin, std::min(kStaged, buffer.count - begin));
      const Buffer wide = {staged_.data.get(), piece.count, DType::kF32, {}};
      Widen(piece, wide);
      FTUNE_RETURN_IF_ERROR(AllReducePiece(call, wide, piece));
      begin += kStaged;
    } while (begin < buffer.count);
    return absl::OkStatus();
  }

  // `wide` is reduced, and lost; `out` may be it.
  absl::Status AllReducePiece(const Call& call, const Buffer& wide, const Buffer& out) {
    if (!even_) {
      FTUNE_RETURN_IF_ERROR(Step(call, *inner_, Call::AllReduce(wide, StepOp(call))));
      if (leads()) {
        FTUNE_RETURN_IF_ERROR(Step(call, *between_, Call::AllReduce(wide, StepOp(call))));
        Finish(call, wide, out);
      }
      return Step(call, *inner_, Call::Broadcast(out, 0));
    }
    const std::vector<int64_t> counts = EvenCounts(wide.count, inner_->size(), 16);
    const int64_t begin = Offsets(counts)[place()], count = counts[place()];
    const Buffer share = Part(wide, begin, count);
    FTUNE_RETURN_IF_ERROR(Step(call, *inner_, Call::ReduceScatter(wide, share, counts, StepOp(call))));
    FTUNE_RETURN_IF_ERROR(Step(call, *between_, Call::AllReduce(share, StepOp(call))));
    Finish(call, share, Part(out, begin, count));
    return Step(call, *inner_, Call::AllGather(Part(out, begin, count), out, counts));
  }

  // Each host sums what is for each host; the ranks of equal place then exchange their shares of that.
  absl::Status ReduceScatterEven(const Call& call) {
    const DType wide = WideOf(call.in.dtype);
    const std::vector<int64_t> offsets = Offsets(call.counts), counts_between = CountsOfPlace(call.counts);
    const std::vector<int64_t> at = Offsets(counts_between);
    FTUNE_ASSIGN_OR_RETURN(const Buffer sums, sums_.Get(wide, at.back()));
    for (int host = 0; host < std::ssize(hosts_); ++host) {
      const int64_t begin = offsets[first_[host]];
      Buffer of_host = Part(call.in, begin, offsets[first_[host + 1]] - begin);
      if (IsLow(call.in.dtype)) {
        FTUNE_ASSIGN_OR_RETURN(const Buffer widened, widened_.Get(wide, of_host.count));
        Widen(of_host, widened);
        of_host = widened;
      }
      FTUNE_RETURN_IF_ERROR(Step(call, *inner_,
                                 Call::ReduceScatter(of_host, Part(sums, at[host], counts_between[host]),
                                                     CountsOf(host, call.counts), StepOp(call))));
    }
    const Buffer own = Part(sums, at[host_], counts_between[host_]);
    FTUNE_RETURN_IF_ERROR(
        Step(call, *between_, Call::ReduceScatter(sums, own, counts_between, StepOp(call))));
    Finish(call, own, call.out);
    return absl::OkStatus();
  }

  absl::Status ReduceScatterUneven(const Call& call) {
    FTUNE_RETURN_IF_ERROR(AllReduce(call, call.in));
    const Buffer own = Part(call.in, Offsets(call.counts)[rank()], call.counts[rank()]);
    if (own.data != call.out.data && own.count > 0)
      std::memmove(call.out.data, own.data, static_cast<size_t>(own.bytes()));
    return absl::OkStatus();
  }

  // The ranks of equal place exchange their shares; each host then gathers every host's.
  absl::Status AllGatherEven(const Call& call) {
    const std::vector<int64_t> offsets = Offsets(call.counts), counts_between = CountsOfPlace(call.counts);
    const std::vector<int64_t> at = Offsets(counts_between);
    FTUNE_ASSIGN_OR_RETURN(const Buffer shares, sums_.Get(call.in.dtype, at.back()));
    FTUNE_RETURN_IF_ERROR(Step(call, *between_, Call::AllGather(call.in, shares, counts_between)));
    for (int host = 0; host < std::ssize(hosts_); ++host) {
      const int64_t begin = offsets[first_[host]];
      const Buffer of_host = Part(call.out, begin, offsets[first_[host + 1]] - begin);
      FTUNE_RETURN_IF_ERROR(Step(call, *inner_,
                                 Call::AllGather(Part(shares, at[host], counts_between[host]), of_host,
                                                 CountsOf(host, call.counts))));
    }
    return absl::OkStatus();
  }

  absl::Status AllGatherUneven(const Call& call) {
    const std::vector<int64_t> offsets = Offsets(call.counts);
    std::vector<int64_t> of_hosts;
    for (int host = 0; host < std::ssize(hosts_); ++host)
      of_hosts.push_back(offsets[first_[host + 1]] - offsets[first_[host]]);
    const Buffer own = Part(call.out, offsets[first_[host_]], of_hosts[host_]);
    FTUNE_RETURN_IF_ERROR(Step(call, *inner_, Call::AllGather(call.in, own, CountsOf(host_, call.counts))));
    if (leads()) FTUNE_RETURN_IF_ERROR(Step(call, *between_, Call::AllGather(own, call.out, of_hosts)));
    return Step(call, *inner_, Call::Broadcast(call.out, 0));
  }

  absl::Status Broadcast(const Call& call) {
    const int root_host = HostOf(call.peer);
    if (host_ == root_host) {
      FTUNE_RETURN_IF_ERROR(Step(call, *inner_, Call::Broadcast(call.in, call.peer - first_[root_host])));
    }
    if (leads()) FTUNE_RETURN_IF_ERROR(Step(call, *between_, Call::Broadcast(call.in, root_host)));
    return host_ == root_host ? absl::OkStatus() : Step(call, *inner_, Call::Broadcast(call.in, 0));
  }

  // Of the ranks of this one's place on all hosts.
  std::vector<int64_t> CountsOfPlace(const std::vector<int64_t>& counts) const {
    std::vector<int64_t> of_place;
    for (int host = 0; host < std::ssize(hosts_); ++host) of_place.push_back(counts[first_[host] + place()]);
    return of_place;
  }

  std::vector<int> hosts_;
  std::vector<int> first_;  // rank of each host, and behind the last the number of ranks
  int host_;                // this rank's
  bool even_;               // all hosts have equally many ranks
  std::unique_ptr<Transport> inner_;
  std::unique_ptr<Transport> outer_;
  // The ranks of this one's place on all hosts, where all have as many; else the first ranks of all hosts,
  // for those.
  std::unique_ptr<Transport> between_;
  SharedBytes staged_;
  Room sums_, widened_;
  mutable std::mutex mutex_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeHierarchicalTransport(const std::vector<int>& hosts,
                                                                     std::unique_ptr<Transport> inner,
                                                                     std::unique_ptr<Transport> outer) {
  if (hosts.size() == 1) return inner;
  if (*std::max_element(hosts.begin(), hosts.end()) == 1) return outer;
  int host = 0, first = 0;
  while (first + hosts[host] <= outer->rank()) first += hosts[host++];
  auto transport = std::make_unique<HierarchicalTransport>(hosts, host, std::move(inner), std::move(outer));
  FTUNE_RETURN_IF_ERROR(transport->Connect());
  return transport;
}

}  // namespace ftune
