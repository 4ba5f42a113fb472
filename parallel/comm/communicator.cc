#include "parallel/comm/communicator.h"

#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/timeline.h"
#include "parallel/comm/call_queue.h"
#include "parallel/comm/single_transport.h"

namespace ftune {
namespace {

// What a rank sends with the algorithms that move least.
int64_t BytesSent(const Call& call, int rank, int size) {
  const auto without_own = [&](const std::vector<int64_t>& counts) {
    int64_t total = 0;
    for (int i = 0; i < size; ++i) total += i == rank ? 0 : counts[i];
    return total;
  };
  switch (call.kind) {
    case CallKind::kAllReduce:
      return 2 * BytesFor(call.in.dtype, call.in.count) * (size - 1) / size;
    case CallKind::kReduceScatter:
    case CallKind::kAllToAll:
      return BytesFor(call.in.dtype, without_own(call.counts));
    case CallKind::kAllGather:
      return BytesFor(call.in.dtype, call.counts[rank]) * (size - 1);
    case CallKind::kBroadcast:
      return call.peer == rank ? call.in.bytes() : 0;
    case CallKind::kSend:
      return call.in.bytes();
    case CallKind::kReceive:
    case CallKind::kBarrier:
      return 0;
  }
  return 0;
}

}  // namespace

absl::Status Pending::Wait() {
  return communicator_ == nullptr ? absl::OkStatus() : communicator_->WaitFor(ticket_);
}

bool Pending::done() const {
  return communicator_ == nullptr || !communicator_->queue_ || communicator_->queue_->Done(ticket_);
}

Communicator::Communicator(std::unique_ptr<Transport> transport, std::vector<int> world_ranks)
    : transport_(std::move(transport)),
      world_ranks_(std::move(world_ranks)),
      group_ranks_(world_ranks_.empty() ? GroupRanks() : GroupRanks::Of(world_ranks_)),
      rank_(transport_->rank()),
      size_(transport_->size()),
      sent_(size_, 0),
      received_(size_, 0) {}

Communicator::Communicator(std::unique_ptr<Transport> transport) : Communicator(std::move(transport), {}) {
  world_ranks_.resize(size_);
  std::iota(world_ranks_.begin(), world_ranks_.end(), 0);
  group_ranks_ = GroupRanks::Of(world_ranks_);
}

Communicator::~Communicator() = default;

void Communicator::Number(Call& call) {
  call.sequence = call.kind == CallKind::kSend      ? sent_[call.peer]++
                  : call.kind == CallKind::kReceive ? received_[call.peer]++
                                                    : calls_++;
  ++traffic_.calls;
  traffic_.bytes += BytesSent(call, rank_, size_);
}

absl::Status Communicator::Observe(CommSpan span, const std::function<absl::Status()>& work) {
  span.group = this;
  span.ranks = group_ranks_;
  span.begin = Timeline::Now();
  for (CallObserver* observer : observers_) observer->OnBegin(span);
  absl::Status status = work();
  span.end = Timeline::Now();
  span.failed = !status.ok();
  for (CallObserver* observer : observers_) observer->OnEnd(span);
  return status;
}

absl::Status Communicator::RunNow(const Call& call, bool exposed, uint64_t ticket) {
  if (observers_.empty()) return transport_->Run(call);
  return Observe({.ticket = ticket,
                  .call = call.signature(),
                  .bytes_to_send = BytesSent(call, rank_, size_),
                  .exposed = exposed},
                 [&] { return transport_->Run(call); });
}

absl::Status Communicator::WaitFor(uint64_t ticket) {
  const auto wait = [&] { return queue_ ? queue_->Wait(ticket) : transport_->status(); };
  if (observers_.empty()) return wait();
  return Observe({.is_wait = true, .ticket = ticket, .exposed = true}, wait);
}

absl::Status Communicator::Run(Call call) {
  if (const uint64_t last = queue_ ? queue_->last() : started_at_once_; last > 0) {
    FTUNE_RETURN_IF_ERROR(WaitFor(last));
  }
  Number(call);
  return RunNow(call, true);
}

Pending Communicator::Start(Call call) {
  Number(call);
  if (size_ == 1) {
    RunNow(call, true).IgnoreError();  // it stays in the transport
    return {};
  }
  if (transport_->returns_at_once()) {
    RunNow(call, false, ++started_at_once_).IgnoreError();  // likewise
    return Pending(this, started_at_once_);
  }
  if (!queue_) {
    queue_ = std::make_unique<CallQueue>([this](const Call& c) { return RunNow(c, false); });
  }
  return Pending(this, queue_->Put(std::move(call)));
}

absl::StatusOr<double> Communicator::AllReduce(double value, ReduceOp op) {
  FTUNE_RETURN_IF_ERROR(Run(Call::AllReduce({reinterpret_cast<std::byte*>(&value), 1, DType::kF64, {}}, op)));
  return value;
}

absl::StatusOr<int64_t> Communicator::AllReduce(int64_t value, ReduceOp op) {
  FTUNE_RETURN_IF_ERROR(Run(Call::AllReduce({reinterpret_cast<std::byte*>(&value), 1, DType::kI64, {}}, op)));
  return value;
}

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Split(const std::vector<int>& members) {
  FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<Transport> part, transport_->Split(members));
  std::vector<int> world_ranks;
  for (const int member : members) world_ranks.push_back(world_ranks_[member]);
  std::unique_ptr<Communicator> group(new Communicator(std::move(part), std::move(world_ranks)));
  group->set_observers(observers_);
  return group;
}

std::unique_ptr<Communicator> MakeSingleCommunicator() {
  return std::make_unique<Communicator>(std::make_unique<SingleTransport>());
}

}  // namespace ftune
