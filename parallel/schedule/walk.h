// Executes the lists of all ranks as far as they go, without time: what the checker and the simulator share.
#pragma once

#include <functional>
#include <vector>

#include "parallel/schedule/schedule.h"

namespace ftune {

enum class SendMode : uint8_t {
  kBuffered,    // a send never waits
  kRendezvous,  // a send waits until its receive is posted
};

// A value for each action that there can be. The schedule's actions must lie within its shape.
template <typename Value>
class ActionTable {
 public:
  ActionTable(const ScheduleShape& shape, Value initial)
      : stages_(shape.stages()),
        microbatches_(shape.microbatches),
        values_(kKinds * stages_ * (microbatches_ + 1), initial) {}
  typename std::vector<Value>::reference operator[](const Action& action) { return values_[Index(action)]; }
  Value operator[](const Action& action) const { return values_[Index(action)]; }

 private:
  static constexpr size_t kKinds = static_cast<size_t>(ActionKind::kReduce) + 1;
  // Microbatch -1, of G and R, comes first.
  size_t Index(const Action& action) const {
    return (static_cast<size_t>(action.kind) * stages_ + action.stage) * (microbatches_ + 1) +
           (action.microbatch + 1);
  }

  size_t stages_;
  size_t microbatches_;
  std::vector<Value> values_;
};

class ScheduleWalk {
 public:
  explicit ScheduleWalk(const Schedule& schedule, SendMode mode = SendMode::kBuffered);

  // Executes what can be executed, rank by rank, and calls `visit` for each action after everything that it
  // needs. Returns whether all lists came to their end.
  bool Run(const std::function<void(int rank, int position)>& visit);

  // Positions of the next actions, by rank.
  const std::vector<int>& next() const { return next_; }

  // What an action needs, done or not: from another rank its send, where the lists have transfers, or else
  // the compute action that makes it; from the same rank the compute action. For kRendezvous a send needs its
  // receive. Calls `use` for each, with actions that are in the lists.
  void ForEachNeed(const Action& action, const std::function<void(const Action&)>& use) const;
  bool done(const Action& action) const { return done_[action]; }
  bool has_transfers() const { return has_transfers_; }

 private:
  bool Ready(const Action& action) const;
  Action InputGradient(int stage, int microbatch) const;

  const Schedule& schedule_;
  SendMode mode_;
  bool has_transfers_ = false;
  ActionTable<bool> listed_;
  ActionTable<bool> done_;
  std::vector<int> next_;
};

}  // namespace ftune
