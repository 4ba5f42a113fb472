#include "cmd/plan/target.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/device/catalogue.h"
#include "cmd/device/device_yaml.h"
#include "cmd/device/measured_device.h"
#include "cmd/model_session.h"
#include "cmd/plan/host_memory.h"
#include "cmd/recipe/availability.h"
#include "cmd/recipe/nearest.h"
#include "cmd/recipe/resolve.h"
#include "cmd/recipe/types.h"
#include "cmd/recipe/units.h"
#include "cmd/run_options.h"

namespace ftune {
namespace {

ErrorDetail OnError(const std::string& found) {
  return {.file = "command line", .key = kOnFlag, .found = StrCat("'", found, "'")};
}

bool IsPath(const std::string& name) {
  const std::string lower = Lower(name);
  return lower.ends_with(".yaml") || lower.ends_with(".yml");
}

absl::StatusOr<DeviceModel> DeviceOf(const std::string& name) {
  if (IsPath(name)) return ReadDevice(name);
  if (std::optional<DeviceModel> device = FindDevice(name)) return *std::move(device);
  const std::vector<std::string> names = DeviceNames();
  const std::optional<std::string> meant = Nearest(name, names);
  ErrorDetail error = OnError(name);
  error.message = "unknown device";
  error.expected = StrCat("one of ", StrJoin(names, ", "), ", or the path of an entry in YAML");
  error.hint = meant ? StrCat("did you mean ", *meant, "?") : "";
  return UsageError(std::move(error));
}

// Cuts a positive number and an x off the begin of `text`.
std::optional<int64_t> TakeFactor(std::string& text) {
  const size_t x = text.find_first_of("xX");
  if (x == std::string::npos) return std::nullopt;
  const std::optional<int64_t> factor = ParseInteger(text.substr(0, x));
  if (!factor || *factor < 1 || *factor > kMostRanks) return std::nullopt;
  text.erase(0, x + 1);
  return factor;
}

}  // namespace

int64_t Target::MemoryOfRank() const {
  return device.is_cpu ? device.memory * device.per_host / per_host : device.memory;
}

std::string Describe(const Target& target) {
  return StrCat(target.hosts, target.hosts == 1 ? " host of " : " hosts of ", target.per_host, " ",
                target.device.name);
}

absl::StatusOr<Target> ParseOn(const std::string& text) {
  std::string rest = text;
  const std::optional<int64_t> hosts = TakeFactor(rest);
  const std::optional<int64_t> per_host = hosts ? TakeFactor(rest) : std::nullopt;
  if (!per_host || *hosts * *per_host > kMostRanks || rest.empty()) {
    ErrorDetail error = OnError(text);
    error.expected =
        StrCat("HOSTSxDEVICESxNAME, such as 4x8xA100-80G, of at most ", kMostRanks, " devices in all");
    return UsageError(std::move(error));
  }
  FTUNE_ASSIGN_OR_RETURN(DeviceModel device, DeviceOf(rest));
  return Target{.hosts = static_cast<int>(*hosts),
                .per_host = static_cast<int>(*per_host),
                .device = std::move(device)};
}

absl::StatusOr<std::optional<Target>> MeasuredTarget(const Recipe& recipe) {
  FTUNE_ASSIGN_OR_RETURN(std::optional<DeviceModel> device,
                         MeasuredDevice(static_cast<int>(*recipe.launch.threads)));
  if (!device) return std::nullopt;
  const int ranks = ToMeshShape(recipe.parallel).ranks();
  const int per_host = static_cast<int>(*recipe.launch.ranks_per_host);
  device->memory = HostMemory() / device->per_host;
  return Target{
      .hosts = (ranks + per_host - 1) / per_host, .per_host = per_host, .device = *std::move(device)};
}

absl::Status ResolveFor(LoadedRecipe& loaded, const Target& target) {
  FTUNE_RETURN_IF_ERROR(CheckAvailable(loaded));
  if (!loaded.given) loaded.given = loaded.recipe;
  LaunchSection& launch = loaded.recipe.launch;
  launch.hosts.clear();
  launch.hostfile.reset();
  launch.kind.reset();
  launch.device.reset();
  launch.ranks_per_host = target.per_host;
  // A device whose activations are f16 has no bf16.
  std::optional<WeightType>& weights = loaded.recipe.precision.weights;
  if (!weights && target.device.activations == DType::kF16) weights = WeightType::kFp16;
  // A rank on another device than a CPU has one thread that computes nothing.
  const int cores = target.device.is_cpu ? CpuCores() : target.per_host;
  return Resolve(loaded, {.cores = cores,
                          .has_cuda = !target.device.is_cpu,
                          .slots = std::vector<int>(target.hosts, target.per_host),
                          .slots_said_by = kOnFlag});
}

}  // namespace ftune
