// The devices that a plan is for.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cmd/recipe/load.h"
#include "engine/plan/device_model.h"

namespace ftune {

struct Target {
  int hosts = 1;
  int per_host = 1;  // devices, each of which has a rank
  DeviceModel device;

  // Bytes that a rank may have: ranks on a CPU share what their host has.
  int64_t MemoryOfRank() const;
};

// "4 hosts of 8 A100-80G"
std::string Describe(const Target& target);

inline constexpr char kOnFlag[] = "--on";

// "4x8xA100-80G": hosts, devices on each, and the name of a device, or the path of an entry (device_yaml.h),
// which ends in .yaml or .yml.
absl::StatusOr<Target> ParseOn(const std::string& text);

// Where a resolved recipe runs from here, on hosts like this one: with the memory that this host has, and the
// entry that `ftune bench` has written of ranks with so many threads. Nothing where it has not.
absl::StatusOr<std::optional<Target>> MeasuredTarget(const Recipe& recipe);

// Resolves the recipe as it would be on the target, wherever the recipe itself would run.
absl::Status ResolveFor(LoadedRecipe& loaded, const Target& target);

}  // namespace ftune
