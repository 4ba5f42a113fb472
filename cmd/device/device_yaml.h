// Entries of devices, in YAML: those that ftune brings along, a user's own ones, and what `ftune bench`
// writes.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/plan/device_model.h"

namespace ftune {

// What an entry measured it says outright (`products`, `rates`); what it knows from data sheets it says as
// peaks, a memory bandwidth and the shares of them that are reached (`efficiency`), from which the rates
// follow that it does not say. docs/planning.md has all keys. `file` is only named in errors, which have exit
// code 2, lines, and all that is wrong at once.
absl::StatusOr<DeviceModel> ParseDevice(std::string_view text, const std::string& file);

// The same of a file.
absl::StatusOr<DeviceModel> ReadDevice(const std::string& path);

// ParseDevice reads it back equal.
std::string WriteDevice(const DeviceModel& device);

}  // namespace ftune
