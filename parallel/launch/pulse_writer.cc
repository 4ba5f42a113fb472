#include "parallel/launch/pulse_writer.h"

#include <algorithm>
#include <utility>

namespace ftune {

PulseWriter::PulseWriter(PulsePage page) : page_(std::move(page)) {
  constexpr size_t kMostPhases = 8;  // within each other; no more is taken while a rank trains
  phases_.reserve(kMostPhases);
}

void PulseWriter::Publish(double now) {
  shown_.changed = now;
  page_.Write(shown_);
}

void PulseWriter::set_total_steps(int64_t steps) {
  const std::lock_guard lock(mutex_);
  shown_.total_steps = steps;
  Publish(Timeline::Now());
}

void PulseWriter::Beat() {
  const std::lock_guard lock(mutex_);
  if (!stays_) Publish(Timeline::Now());
}

void PulseWriter::ShowPhase() {
  if (phases_.empty()) {
    shown_.phase = {};
    shown_.micro_batch = -1;
  } else {
    shown_.phase = phases_.back().name;
    shown_.micro_batch = phases_.back().micro_batch;
  }
}

void PulseWriter::OnBegin(int lane, std::string_view name, int64_t number) {
  const std::lock_guard lock(mutex_);
  const bool is_step = name == kStepMark;
  if (is_step) stays_ = false;  // training goes on without what has failed
  if (stays_) return;
  const double now = Timeline::Now();
  if (lane == kStepLane && IsOwnThread()) {
    Phase& phase =
        phases_.emplace_back(Phase{.name = {}, .micro_batch = is_step ? -1 : number, .begin = now});
    std::copy_n(name.begin(), std::min(name.size(), phase.name.size() - 1), phase.name.begin());
    if (is_step) {
      shown_.step = number;
      step_begin_ = now;
      waited_ = waited_for_data_ = 0.0;
    }
    ShowPhase();
  }
  Publish(now);
}

void PulseWriter::OnEnd(int lane) {
  const std::lock_guard lock(mutex_);
  if (stays_) return;
  const double now = Timeline::Now();
  if (lane == kStepLane && IsOwnThread() && !phases_.empty()) {
    const Phase ended = phases_.back();
    phases_.pop_back();
    if (ended.name.data() == kDataMark) waited_for_data_ += now - ended.begin;
    if (ended.name.data() == kStepMark) EndStep(now);
    ShowPhase();
  }
  Publish(now);
}

void PulseWriter::EndStep(double now) {
  shown_.step_seconds = now - step_begin_;
  shown_.wait_seconds = waited_;
  shown_.data_wait_seconds = waited_for_data_;
  shown_.compute_seconds = std::max(0.0, shown_.step_seconds - waited_ - waited_for_data_);
}

void PulseWriter::ShowCall() {
  const auto running = std::find_if(running_.begin(), running_.end(),
                                    [&](const Running& call) { return call.group == waits_on_; });
  const bool waits = waits_on_ != nullptr && running != running_.end();
  shown_.call = waits ? running->call : CallSignature();
  shown_.group = waits ? waits_with_ : GroupRanks();
}

void PulseWriter::OnBegin(const CommSpan& span) {
  // In a group of its own nobody waits.
  if (span.ranks.count < 2) return;
  const std::lock_guard lock(mutex_);
  if (stays_) return;
  if (!span.is_wait) {
    running_.push_back({span.group, span.call});
    ++shown_.calls;
    shown_.network_bytes[static_cast<size_t>(span.call.kind)] += span.bytes_to_send;
  }
  if (span.exposed && IsOwnThread()) {
    waits_on_ = span.group;
    waits_with_ = span.ranks;
  }
  ShowCall();
  Publish(span.begin);
}

void PulseWriter::OnEnd(const CommSpan& span) {
  if (span.ranks.count < 2) return;
  const std::lock_guard lock(mutex_);
  // What failed beside fails for the thread that trains when it waits for that.
  if (span.failed) stays_ |= IsOwnThread();
  if (span.failed || stays_) return;
  if (!span.is_wait) {
    std::erase_if(running_, [&](const Running& call) { return call.group == span.group; });
  }
  if (span.exposed && IsOwnThread()) {
    waited_ += span.end - span.begin;
    waits_on_ = nullptr;
  }
  ShowCall();
  Publish(span.end);
}

}  // namespace ftune
