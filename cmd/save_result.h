// What a finished or stopped run leaves.
#pragma once

#include <filesystem>
#include <span>

#include "absl/status/statusor.h"
#include "cmd/run_folder.h"
#include "engine/backend/backend.h"
#include "engine/format/loaded_model.h"
#include "engine/format/output_tensor.h"

namespace ftune {

// Writes the adapter, or the model in `dtype`, into the run's folder and returns where. One that is there
// already is replaced at once and as a whole: a process killed in between leaves the old one or the new one.
// Called by all ranks that share out the model, of which the first writes.
absl::StatusOr<std::filesystem::path> SaveResult(Backend& backend, LoadedModel& loaded, DType dtype,
                                                 const RunPaths& paths);

// The adapter of `loaded`, as PEFT has it, and its tokenizer: `tensors` are its AdapterTensors. The folder is
// made if need be.
absl::Status WriteAdapter(const LoadedModel& loaded, std::span<const OutputTensor> tensors,
                          const std::filesystem::path& folder);

}  // namespace ftune
