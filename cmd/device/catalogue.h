// The devices that ftune knows.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/plan/device_model.h"

namespace ftune {

// In the order in which they are listed to users.
std::vector<std::string> DeviceNames();

// Nothing where there is none of that name, in upper or lower case.
std::optional<DeviceModel> FindDevice(std::string_view name);

}  // namespace ftune
