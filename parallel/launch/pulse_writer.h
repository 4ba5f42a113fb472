// Shows what a rank does, as its marks and its calls tell, on a PulsePage.
#pragma once

#include <cstdint>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "base/timeline.h"
#include "parallel/comm/call_observer.h"
#include "parallel/launch/pulse_page.h"

namespace ftune {

// Marks of the step lane are phases: the innermost of those that have begun is where the rank is, and its
// number a microbatch; that of kStepMark is a step. All other marks are but signs of life. A call that fails
// is where the rank stays until it begins another step: what it does from then on is to end.
class PulseWriter final : public TimeListener, public CallObserver {
 public:
  // Of the thread that trains.
  explicit PulseWriter(PulsePage page);

  void set_total_steps(int64_t steps);
  // A sign of life.
  void Beat();

  void OnBegin(int lane, std::string_view name, int64_t number) override;
  void OnEnd(int lane) override;
  void OnBegin(const CommSpan& span) override;
  void OnEnd(const CommSpan& span) override;

  // What it shows now.
  Pulse Look() const { return page_.Look(); }

 private:
  struct Phase {
    std::array<char, sizeof(PulseRecord::phase)> name;
    int64_t micro_batch;
    double begin;
  };
  // A call that a group's thread runs while others go on.
  struct Running {
    const Communicator* group;
    CallSignature call;
  };

  bool IsOwnThread() const { return std::this_thread::get_id() == thread_; }
  void EndStep(double now);
  // The rest need mutex_.
  void ShowPhase();
  void ShowCall();
  void Publish(double now);

  const std::thread::id thread_ = std::this_thread::get_id();
  std::mutex mutex_;  // between threads of this process
  PulsePage page_;
  PulseRecord shown_;
  bool stays_ = false;  // a call has failed
  std::vector<Phase> phases_;
  std::vector<Running> running_;
  const Communicator* waits_on_ = nullptr;  // the thread that trains does
  GroupRanks waits_with_;
  // Of the step at hand.
  double step_begin_ = 0.0, waited_ = 0.0, waited_for_data_ = 0.0;
};

}  // namespace ftune
