// This machine as an entry of a device.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/plan/device_model.h"

namespace ftune {

// A rank with so many threads, beside as many as fit on the cores, which share `host_memory` bytes. Takes
// less than a minute. Called while there is one thread.
absl::StatusOr<DeviceModel> MeasureDevice(int threads, int64_t host_memory);

}  // namespace ftune
