// How a launcher comes to have an agent on a host.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/descriptor.h"

namespace ftune {

struct AgentConnection {
  Descriptor in, out;  // from the agent, and to it
};

class HostConnector {
 public:
  virtual ~HostConnector() = default;
  // Starts an agent on a host, by its number; one that was there before is gone. What is wrong may show only
  // when the connection ends.
  virtual absl::StatusOr<AgentConnection> Connect(int host) = 0;
  // Why a connection ended, as far as whoever made it knows: waits a moment for its words. Empty: it does not
  // say.
  virtual std::string WhyEnded(int host) = 0;
  // Ends what leads to the host, and waits for that.
  virtual void Disconnect(int host) = 0;
};

}  // namespace ftune
