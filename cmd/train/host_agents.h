// The agents of hosts that a recipe or a command line names: what training on hosts and examining them share.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cmd/recipe/recipe.h"
#include "parallel/launch/agent_command.h"
#include "parallel/launch/agent_probe.h"
#include "parallel/launch/agents.h"
#include "parallel/launch/command_connector.h"

namespace ftune {

class HostAgents {
 public:
  // `launch` says how they are reached, where ftune is there, and for how long they are waited for.
  HostAgents(std::vector<std::string> names, const LaunchSection& launch);

  Agents* operator->() const { return agents_.get(); }
  Agents& operator*() const { return *agents_; }
  std::vector<int> all() const;
  // Whether a host is the one that ftune was called on.
  bool is_here(int host) const { return is_here_[host]; }

  // To those that are not connected yet; what is wrong with each that cannot be reached, that is another
  // one's double, or whose ftune is another build and is not to be replaced (launch.copy_program).
  std::map<int, absl::Status> Connect();
  // Begins to ask whether a host that is not connected could be; and the answer of a probe that is done.
  absl::StatusOr<AgentProbe> Probe(int host) const;
  bool WouldDo(const AgentProbe& probe) const;
  // Where `others`, which are connected as the host is, may reach it: the likeliest first.
  std::vector<std::string> AddressesOf(int host, const std::vector<int>& others) const;
  // "the clock of host node2 is 7 s ahead"; nothing where it is about right.
  std::optional<std::string> WrongClock(int host) const;

 private:
  AgentCommand CommandFor(int host, const AgentProgram& program) const;
  // To those of `hosts` that are not connected yet, where they have this very program.
  std::map<int, absl::Status> ConnectTo(const std::vector<int>& hosts);
  // Copies the program to hosts with which something is wrong, and connects to them once more.
  void BringProgram(std::map<int, absl::Status>& wrong);

  std::vector<std::string> names_;
  std::vector<bool> is_here_;
  bool slurm_;
  bool copies_program_;
  absl::Duration connect_timeout_;
  AgentProgram program_;
  CommandConnector* connector_;  // of the agents
  std::unique_ptr<Agents> agents_;
};

absl::Status HostError(const std::string& host, std::string message, std::string hint);

}  // namespace ftune
