// Agents on other hosts over the system's ssh, with the user's own configuration, keys and jump hosts; and on
// this host by a process of its own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "parallel/launch/command_process.h"
#include "parallel/launch/host_connector.h"

namespace ftune {

struct SshHost {
  std::string name;    // as ssh knows it
  bool local = false;  // it is this one
};

struct SshOptions {
  std::string program;  // the path of ftune on the other hosts
  absl::Duration heartbeat_timeout = absl::Seconds(30);
  absl::Duration connect_timeout = absl::Seconds(15);
};

class SshConnector final : public HostConnector {
 public:
  SshConnector(std::vector<SshHost> hosts, const SshOptions& options);

  absl::StatusOr<AgentConnection> Connect(int host) override;
  std::string WhyEnded(int host) override;
  void Disconnect(int host) override;

 private:
  std::vector<std::string> CommandFor(const SshHost& host) const;

  std::vector<SshHost> hosts_;
  SshOptions options_;
  std::map<int, CommandProcess> processes_;  // by host
};

// Whether a name is this host's: its own, localhost, or one that stands for an address which it has.
bool IsThisHost(const std::string& name);

}  // namespace ftune
