// Agents by commands whose standard input and output are the agent's: one a host.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "parallel/launch/command_process.h"
#include "parallel/launch/host_connector.h"

namespace ftune {

struct AgentCommand {
  std::string name;                // of what runs the agent, in messages: "ssh"
  std::vector<std::string> words;  // argv
};

class CommandConnector final : public HostConnector {
 public:
  // By host.
  explicit CommandConnector(std::vector<AgentCommand> commands) : commands_(std::move(commands)) {}

  // From its next connection on.
  void set_command(int host, AgentCommand command) { commands_[host] = std::move(command); }

  absl::StatusOr<AgentConnection> Connect(int host) override;
  std::string WhyEnded(int host) override;
  void Disconnect(int host) override;

 private:
  std::vector<AgentCommand> commands_;
  std::map<int, CommandProcess> processes_;  // by host
};

}  // namespace ftune
