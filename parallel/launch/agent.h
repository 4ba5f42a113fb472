// The part of a launcher that runs on a host: starts its ranks, watches them, and sees to it that none is
// left when the launcher is gone.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/time/time.h"
#include "base/descriptor.h"

namespace ftune {

struct AgentOptions {
  std::string version;  // of ftune
  // Without a sign of life from the launcher for so long it is gone.
  absl::Duration heartbeat_timeout = absl::Seconds(30);
  // Answers the question kExamine, whose facts it gets, by an object.
  std::function<nlohmann::json(const nlohmann::json& facts)> examine;
};

// Speaks with a launcher over the two descriptors until it closes them or is silent for too long; the ranks
// that there are then get SIGTERM, and SIGKILL when they have not ended in time. Where this process is
// stopped for as long, it and they are killed. → the exit status. Of the program's main thread.
int ServeAgent(Descriptor in, Descriptor out, const AgentOptions& options);

}  // namespace ftune
