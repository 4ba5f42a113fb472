// A measured device, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/plan/device_model.h"

namespace ftune {

std::string DeviceText(const DeviceModel& device);

// FLOP/s, bytes, bytes a second and seconds, under the names that the entry has.
nlohmann::ordered_json DeviceJson(const DeviceModel& device);

}  // namespace ftune
