// What the ops of a backend reach on this machine.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/plan/device_model.h"
#include "parallel/comm/communicator.h"

namespace ftune {

struct OpRates {
  std::map<DType, std::vector<ProductRate>> products;
  std::array<OpRate, kOpClasses> rates;
};

// Flops and bytes are those that the backend tells its listener, which a planner reckons with. Called by all
// ranks alike, each with a backend of its own.
absl::StatusOr<OpRates> MeasureOps(Backend& backend, Communicator& ranks);

}  // namespace ftune
