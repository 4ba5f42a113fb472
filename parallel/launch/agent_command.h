// Commands that run an agent on a host.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "parallel/launch/command_connector.h"

namespace ftune {

struct AgentProgram {
  std::string path;  // of ftune on the other hosts
  absl::Duration heartbeat_timeout = absl::Seconds(30);
  absl::Duration connect_timeout = absl::Seconds(15);
};

// On this host.
AgentCommand LocalAgent(const AgentProgram& program);
// Over the system's ssh, with the user's own configuration, keys and jump hosts; `host` as ssh knows it.
AgentCommand SshAgent(const std::string& host, const AgentProgram& program);
// On a node of the Slurm job that this process is of, by srun.
AgentCommand SrunAgent(const std::string& node, const AgentProgram& program);

// Other commands there, by the same ways.
std::vector<std::string> SshWords(const std::string& host, const AgentProgram& program,
                                  const std::vector<std::string>& command);

// Whether a name is this host's: its own, localhost, or one that stands for an address which it has.
bool IsThisHost(const std::string& name);

}  // namespace ftune
