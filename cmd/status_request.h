// A run's status over the network, from the process that leads it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cmd/watch/run_status.h"

namespace ftune {

// Whether it is HOST:PORT.
bool NamesServer(const std::string& text);

// Of a run that has log.metrics_port.
absl::StatusOr<RunStatus> RequestStatus(const std::string& server);

}  // namespace ftune
