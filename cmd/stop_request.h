// A request that a run stops, as a file in its folder: for who cannot signal the process that leads it.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "cmd/run_folder.h"

namespace ftune {

enum class StopRequest {
  kSave,  // save a checkpoint, and end
  kNow,   // end
};

absl::Status WriteStopRequest(const RunPaths& paths, StopRequest request);
// Of the process that leads the run: the request, if there is one, which is then gone. A file that says
// something else (`touch RUN/stop`) asks to save.
std::optional<StopRequest> TakeStopRequest(const RunPaths& paths);
void RemoveStopRequest(const RunPaths& paths);

}  // namespace ftune
