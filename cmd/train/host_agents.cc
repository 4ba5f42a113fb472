#include "cmd/train/host_agents.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/strings.h"
#include "parallel/launch/agent_command.h"
#include "parallel/launch/command_connector.h"
#include "parallel/launch/program_hash.h"

namespace ftune {
namespace {

constexpr double kMostSkew = 5.0;  // seconds between two clocks
constexpr absl::Duration kLongestConnect = absl::Seconds(30);

}  // namespace

absl::Status HostError(const std::string& host, std::string message, std::string hint) {
  return UserError(ExitCode::kRankFailed,
                   {.key = StrCat("host ", host), .message = std::move(message), .hint = std::move(hint)});
}

HostAgents::HostAgents(std::vector<std::string> names, const LaunchSection& launch) {
  const absl::Duration heartbeat = absl::Seconds(launch.heartbeat_timeout);
  const absl::Duration connect = std::min(kLongestConnect, absl::Seconds(launch.start_timeout));
  std::error_code none;
  const AgentProgram program = {
      .path = launch.program.value_or(std::filesystem::read_symlink("/proc/self/exe", none).string()),
      .heartbeat_timeout = heartbeat,
      .connect_timeout = connect / 2};
  const bool slurm = launch.kind == LaunchKind::kSlurm;
  std::vector<AgentCommand> commands;
  for (const std::string& name : names) {
    is_here_.push_back(IsThisHost(name));
    commands.push_back(is_here_.back() ? LocalAgent(program)
                       : slurm         ? SrunAgent(name, program)
                                       : SshAgent(name, program));
  }
  agents_ = std::make_unique<Agents>(
      std::move(names), std::make_unique<CommandConnector>(std::move(commands)),
      AgentsOptions{.version = FTUNE_VERSION, .connect_timeout = connect, .heartbeat_timeout = heartbeat});
}

std::vector<int> HostAgents::all() const {
  std::vector<int> hosts(is_here_.size());
  std::iota(hosts.begin(), hosts.end(), 0);
  return hosts;
}

std::map<int, absl::Status> HostAgents::Connect() {
  std::map<int, absl::Status> wrong;
  for (const HostFailure& failure : agents_->Connect(all())) wrong[failure.host] = failure.why;
  const std::string build = ProgramHash();
  std::map<std::string, std::string> names;  // by identity
  for (const int host : all()) {
    if (!agents_->connected(host)) continue;
    const agent::HostFacts& facts = agents_->facts(host);
    const std::string& name = agents_->name(host);
    const auto [other, is_new] = names.emplace(facts.identity, name);
    if (facts.build != build) {
      wrong[host] = HostError(name, "its ftune is another build of the same version",
                              "copy the program to all hosts, or name it with launch.program");
    } else if (!is_new) {
      wrong[host] = HostError(name, StrCat("it is the same host as ", other->second),
                              "name each host once, with as many slots as it has ranks");
    }
  }
  return wrong;
}

std::vector<std::string> HostAgents::AddressesOf(int host, const std::vector<int>& others) const {
  std::vector<std::string> addresses;
  const auto add = [&](const std::string& address) {
    const bool known = std::find(addresses.begin(), addresses.end(), address) != addresses.end();
    if (!address.empty() && !known) addresses.push_back(address);
  };
  add(agents_->facts(host).server_address);
  // Of this host: what the others see it as.
  for (const int other : others) {
    if (is_here(host) && !is_here(other)) add(agents_->facts(other).client_address);
  }
  const std::string& name = agents_->name(host);
  add(name.substr(name.find('@') + 1));
  return addresses;
}

std::optional<std::string> HostAgents::WrongClock(int host) const {
  const double skew = agents_->facts(host).skew;
  if (std::abs(skew) <= kMostSkew) return std::nullopt;
  return absl::StrFormat("the clock of host %s is %.0f s %s", agents_->name(host), std::abs(skew),
                         skew > 0 ? "ahead" : "behind");
}

}  // namespace ftune
