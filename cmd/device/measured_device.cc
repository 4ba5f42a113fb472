#include "cmd/device/measured_device.h"

#include <system_error>

#include "base/cache_folder.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/device/device_yaml.h"
#include "parallel/launch/host_identity.h"

namespace ftune {

std::string MeasuredName(int threads) { return StrCat(HostName(), "-", threads); }

std::filesystem::path MeasuredFile(int threads) {
  const std::filesystem::path cache = CacheFolder(ProcessEnvironment());
  return cache.empty() ? cache : cache / "devices" / StrCat(MeasuredName(threads), ".yaml");
}

absl::StatusOr<std::optional<DeviceModel>> MeasuredDevice(int threads) {
  const std::filesystem::path file = MeasuredFile(threads);
  std::error_code error;
  if (file.empty() || !std::filesystem::exists(file, error)) return std::nullopt;
  FTUNE_ASSIGN_OR_RETURN(DeviceModel device, ReadDevice(file.string()));
  return device;
}

}  // namespace ftune
