// The parts of FindFault (check.h) that look at one list or one link at a time.
#pragma once

#include <optional>

#include "parallel/schedule/check.h"
#include "parallel/schedule/walk.h"

namespace ftune {

class FaultFinder {
 public:
  // The schedule has as many lists as its shape has ranks.
  FaultFinder(const Schedule& schedule, int first_backward_stage);

  // Each action is of this shape and rank, comes once, and is one that its stage has.
  std::optional<ScheduleFault> FindWrongAction();
  // Those below need that FindWrongAction found nothing.
  std::optional<ScheduleFault> FindMissing() const;
  std::optional<ScheduleFault> FindWrongOrder() const;  // within a rank
  std::optional<ScheduleFault> FindWrongUnit() const;
  std::optional<ScheduleFault> FindWrongReduction() const;
  std::optional<ScheduleFault> FindWrongLink() const;

 private:
  std::optional<ScheduleFault> WrongAction(int rank, int position);
  bool Listed(const Action& action) const { return position_[action] >= 0; }
  bool HasBackward(int stage) const { return stage >= first_backward_stage_; }
  bool Crosses(int from, int to) const;  // two stages next to each other, on different ranks
  bool Sends(const Action& send) const;  // whether there is anything to send

  const Schedule& schedule_;
  const ScheduleShape& shape_;
  int first_backward_stage_;
  ActionTable<int> position_;  // in the list of the action's rank
  bool has_transfers_ = false;
  bool has_units_ = false;
  bool has_reductions_ = false;
};

}  // namespace ftune
