// Ranks on different hosts: collectives over TCP connections.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "parallel/comm/gloo_link.h"
#include "parallel/comm/transport.h"

namespace ftune {

// Called by all ranks of the group alike. A message names ranks as the options do. The groups split from it
// share its connections, and with them its first error.
//
// Every call begins with a message of each rank to each that says what it calls, and behind that what is
// small; nothing else moves before all are found equal. Reductions exchange shares, reduce them in the order
// of the ranks and gather the results. The process ignores SIGPIPE from then on.
absl::StatusOr<std::unique_ptr<Transport>> JoinGloo(const GlooOptions& options);

}  // namespace ftune
