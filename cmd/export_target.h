// Where an export may be written to.
#pragma once

#include <filesystem>

#include "absl/status/status.h"

namespace ftune {

// An error where writing to `out` (a folder, or the file of `single_file`) would mix with what somebody has
// there: a run's or a checkpoint's folder and all below it, always; another folder that is not empty, unless
// `force`.
absl::Status CheckExportTarget(const std::filesystem::path& out, bool single_file, bool force);

}  // namespace ftune
