// Records at the end of a file, whole or not at all.
#pragma once

#include <filesystem>
#include <string_view>

#include "absl/status/status.h"
#include "base/descriptor.h"

namespace ftune {

// In one write, to a file that is open with O_APPEND and that others may write to as well: nobody sees half a
// record that another follows, nor does a full disk leave one. `path` is its name, for errors.
absl::Status AppendWhole(const Descriptor& file, std::string_view record, const std::filesystem::path& path);

}  // namespace ftune
