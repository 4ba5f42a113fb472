// Where the lines of a run's log go to besides log.jsonl, as the recipe's section `log` says.
#pragma once

#include "absl/status/status.h"
#include "cmd/recipe/recipe.h"
#include "cmd/report/progress.h"
#include "cmd/report/run_log.h"
#include "cmd/run_folder.h"

namespace ftune {

// Of the program's main thread. `progress` outlives the log.
absl::Status AddLogSinks(const LogSection& options, const RunFolder& folder, Progress& progress, RunLog& log);

}  // namespace ftune
