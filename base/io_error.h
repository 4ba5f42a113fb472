// An operating system error on a file as a status that names the file, the action and the cause.
#pragma once

#include <filesystem>
#include <string_view>

#include "absl/status/status.h"

namespace ftune {

// "PATH: error: cannot ACTION: No space left on device; HINT" with exit code 4, or 3 where memory
// is what is missing; `error` is an errno value.
absl::Status IoError(const std::filesystem::path& path, std::string_view action, int error);

// Whether it is such a status, of a disk or a quota that is full; also one that another process has told of.
bool IsDiskFull(const absl::Status& status);

}  // namespace ftune
