// This machine as an entry of a device.
#pragma once

#include <cstdint>
#include <filesystem>

#include "absl/status/statusor.h"
#include "engine/plan/device_model.h"

namespace ftune {

struct MeasureOptions {
  int threads = 1;               // of a rank; there are as many ranks as fit on the cores
  int64_t host_memory = 0;       // bytes that they share
  std::filesystem::path folder;  // on the disk that is measured
};

// Takes less than a minute. Called while there is one thread.
absl::StatusOr<DeviceModel> MeasureDevice(const MeasureOptions& options);

}  // namespace ftune
