// The entry of this machine, which `ftune bench` has measured.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/plan/device_model.h"

namespace ftune {

// Of ranks with so many threads.
std::string MeasuredName(int threads);
// Where it is kept; empty where this user has no cache folder.
std::filesystem::path MeasuredFile(int threads);
// Nothing where it has not been measured; an error where the file is not an entry.
absl::StatusOr<std::optional<DeviceModel>> MeasuredDevice(int threads);

}  // namespace ftune
