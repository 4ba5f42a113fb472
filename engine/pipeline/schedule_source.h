// Where a run's schedule comes from: one of the kinds, or a file.
#pragma once

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "parallel/schedule/schedule.h"

namespace ftune {

struct ScheduleSource {
  ScheduleKind kind = ScheduleKind::k1F1B;
  int chunks = 1;                         // stages a rank
  std::shared_ptr<const Schedule> given;  // from a file, instead of the two
  std::filesystem::path file;             // which, for errors
  ScheduleCosts costs;                    // of the stages: where zero-bubble kinds put W

  // Of a CSV file (parallel/schedule/csv.h), which is read now and not again.
  static absl::StatusOr<ScheduleSource> Read(const std::filesystem::path& file, int ranks);

  // Compute actions of `ranks` pipeline ranks. Of a file that is for more microbatches, those of the first
  // ones.
  absl::StatusOr<Schedule> Make(int ranks, int microbatches) const;
  // What of it does not depend on the microbatches.
  absl::StatusOr<ScheduleShape> Shape(int ranks) const;
};

// Whether a step takes less time where ranks go on to the next without waiting for each other: those begin
// and end one after another and none idles in between. v-half and v-min would gain little, if anything
// (RepeatSteps, simulated), and are for those who have no memory for a copy to roll back to.
bool GainsWithoutBarrier(ScheduleKind kind);

}  // namespace ftune
