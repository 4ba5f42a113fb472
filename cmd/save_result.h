// What a finished or stopped run leaves.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "cmd/run_folder.h"
#include "engine/backend/backend.h"
#include "engine/format/loaded_model.h"

namespace ftune {

// Writes the adapter, or the model in `dtype`, into the run's folder and returns where. One that is there
// already is replaced at once and as a whole: a process killed in between leaves the old one or the new one.
// Called by all ranks that share out the model, of which the first writes.
absl::StatusOr<std::filesystem::path> SaveResult(Backend& backend, LoadedModel& loaded, DType dtype,
                                                 const RunPaths& paths);

}  // namespace ftune
