#include "engine/pipeline/schedule_source.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "parallel/schedule/csv.h"

namespace ftune {

absl::StatusOr<Schedule> ScheduleSource::Make(int ranks, int microbatches) const {
  if (!file.empty()) return ReadScheduleCsv(file, {.ranks = ranks, .microbatches = microbatches});
  return MakeSchedule(kind, ranks, chunks, microbatches, costs);
}

absl::StatusOr<ScheduleShape> ScheduleSource::Shape(int ranks) const {
  if (!file.empty()) {
    FTUNE_ASSIGN_OR_RETURN(const Schedule schedule, ReadScheduleCsv(file, {.ranks = ranks}));
    return schedule.shape;
  }
  FTUNE_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(kind, ranks, chunks, 1));
  return schedule.shape;
}

bool GainsWithoutBarrier(ScheduleKind kind) {
  constexpr std::array kKinds = {ScheduleKind::kZbH2, ScheduleKind::kZbV, ScheduleKind::kVHalf,
                                 ScheduleKind::kVMin};
  return std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
}

}  // namespace ftune
