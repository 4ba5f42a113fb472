#include "engine/plan/virtual_clock.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/plan/op_seconds.h"

namespace ftune {

VirtualTimes VirtualTimes::operator-(const VirtualTimes& before) const {
  VirtualTimes rest = *this;
  for (size_t i = 0; i < rest.ops.size(); ++i) rest.ops[i] -= before.ops[i];
  rest.recomputed -= before.recomputed;
  rest.calls -= before.calls;
  rest.exposed -= before.exposed;
  rest.disk -= before.disk;
  rest.in_host_bytes -= before.in_host_bytes;
  rest.network_bytes -= before.network_bytes;
  return rest;
}

void VirtualClock::OnOp(const OpWork& work) {
  const double seconds = OpSeconds(device_, work);
  now_ += seconds;
  times_.ops[static_cast<size_t>(work.op)] += seconds;
  if (work.recomputed) times_.recomputed += seconds;
}

double VirtualClock::Wait(double until, std::string_view name) {
  if (until <= now_) return 0.0;
  if (spans_ != nullptr) spans_->push_back({kWaitLane, std::string(name), now_, until});
  return until - std::exchange(now_, until);
}

uint64_t VirtualClock::OnDiskBegin(int64_t bytes) {
  const double begin = disk_done_at_.empty() ? now_ : std::max(now_, disk_done_at_.back());
  disk_done_at_.push_back(begin + DiskSeconds(device_, places_, bytes));
  return disk_done_at_.size();
}

bool VirtualClock::IsDiskDone(uint64_t ticket) { return disk_done_at_[ticket - 1] <= now_; }

void VirtualClock::OnDiskWait(uint64_t ticket) { times_.disk += Wait(disk_done_at_[ticket - 1], "disk"); }

void VirtualClock::OnEnd(const CommSpan& span) {
  if (!span.is_wait) return OnCall(span);
  auto& done = done_at_[span.group];
  const auto found = done.find(span.ticket);
  if (found == done.end()) return;
  times_.exposed += Wait(found->second, "wait");
  done.erase(done.begin(), std::next(found));
}

void VirtualClock::OnCall(const CommSpan& span) {
  const double seconds = CallSeconds(device_, places_, span);
  (HostsOf(span.ranks, places_) > 1 ? times_.network_bytes : times_.in_host_bytes) +=
      static_cast<double>(span.bytes_to_send);
  if (span.call.kind == CallKind::kSend) transfer_seconds_ = std::max(transfer_seconds_, seconds);
  if (span.call.kind == CallKind::kSend || span.call.kind == CallKind::kReceive) return;
  double& free = free_at_[span.group];
  const double begin = std::max(now_, free);
  free = begin + seconds;
  times_.calls += seconds;
  if (spans_ != nullptr && seconds > 0) {
    spans_->push_back({kCommunicationLane, span.call.Describe(), begin, free});
  }
  // A processor that moves bytes for a rank does not compute for it.
  if (span.exposed || device_.is_cpu) {
    times_.exposed += Wait(free, Name(span.call.kind));
  } else {
    done_at_[span.group][span.ticket] = free;
  }
}

}  // namespace ftune
