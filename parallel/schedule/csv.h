// Schedules as text: a line a rank, its actions separated by commas, as "F0.0,F0.1,BW0.0".
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "parallel/schedule/schedule.h"

namespace ftune {

std::string FormatScheduleCsv(const Schedule& schedule);
absl::Status WriteScheduleCsv(const std::filesystem::path& path, const Schedule& schedule);

// What a file must be for; what is not given may be anything.
struct ScheduleExpectation {
  std::optional<int> ranks;
  std::optional<int> microbatches;
};

// The shape is taken from the actions: as many stages and microbatches as they name, each stage on the rank
// of a loop or of a V (with one rank, a loop). The notation of torch.distributed.pipelining ("0F3") is read
// too, and empty fields, which it writes where a rank waits, are left out; so are a mark of UTF-8 before the
// first line, CR before the ends of lines, and quotes around an action. A file holds compute actions
// alone, or also all transfers, units or reductions; it must be a schedule that CheckSchedule accepts without
// frozen stages. An error names file and line, and the field (from 1) if one is to blame.
absl::StatusOr<Schedule> ReadScheduleCsv(const std::filesystem::path& path,
                                         const ScheduleExpectation& expected = {});
absl::StatusOr<Schedule> ParseScheduleCsv(std::string_view text, const std::string& file,
                                          const ScheduleExpectation& expected = {});

}  // namespace ftune
