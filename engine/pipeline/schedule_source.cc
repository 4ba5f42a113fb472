#include "engine/pipeline/schedule_source.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "parallel/schedule/csv.h"

namespace ftune {
namespace {

// The compute actions of so many microbatches. What was in order without waiting for ever still is when other
// microbatches' actions are left out.
Schedule FirstMicrobatches(Schedule schedule, int microbatches) {
  schedule.shape.microbatches = microbatches;
  for (std::vector<Action>& actions : schedule.ranks) {
    std::erase_if(actions, [&](const Action& action) {
      return !IsCompute(action.kind) || action.microbatch >= microbatches;
    });
  }
  return schedule;
}

}  // namespace

absl::StatusOr<ScheduleSource> ScheduleSource::Read(const std::filesystem::path& file, int ranks) {
  FTUNE_ASSIGN_OR_RETURN(Schedule schedule, ReadScheduleCsv(file, {.ranks = ranks}));
  ScheduleSource source;
  source.given = std::make_shared<const Schedule>(std::move(schedule));
  source.file = file;
  return source;
}

absl::StatusOr<Schedule> ScheduleSource::Make(int ranks, int microbatches) const {
  if (given) {
    if (microbatches > given->shape.microbatches) {
      return DataError({.file = file.string(),
                        .message = "the schedule is for fewer microbatches than a step has",
                        .found = StrCat(given->shape.microbatches),
                        .expected = StrCat(microbatches)});
    }
    return FirstMicrobatches(*given, microbatches);
  }
  return MakeSchedule(kind, ranks, chunks, microbatches, costs);
}

absl::StatusOr<ScheduleShape> ScheduleSource::Shape(int ranks) const {
  if (given) return given->shape;
  FTUNE_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(kind, ranks, chunks, 1));
  return schedule.shape;
}

bool GainsWithoutBarrier(ScheduleKind kind) {
  return kind == ScheduleKind::kZbH2 || kind == ScheduleKind::kZbV;
}

}  // namespace ftune
