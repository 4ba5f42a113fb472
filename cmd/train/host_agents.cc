#include "cmd/train/host_agents.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/strings.h"
#include "parallel/launch/program_copy.h"
#include "parallel/launch/program_hash.h"
#include "parallel/launch/slurm/srun_command.h"

namespace ftune {
namespace {

constexpr double kMostSkew = 5.0;  // seconds between two clocks
constexpr absl::Duration kLongestConnect = absl::Seconds(30);
constexpr int kHostsAtOnce = 16;  // that are being connected to, or sent the program

}  // namespace

absl::Status HostError(const std::string& host, std::string message, std::string hint) {
  return UserError(ExitCode::kRankFailed,
                   {.key = StrCat("host ", host), .message = std::move(message), .hint = std::move(hint)});
}

HostAgents::HostAgents(std::vector<std::string> names, const LaunchSection& launch)
    : names_(std::move(names)),
      slurm_(launch.kind == LaunchKind::kSlurm),
      copies_program_(launch.copy_program),
      connect_timeout_(std::min(kLongestConnect, absl::Seconds(launch.start_timeout))) {
  const absl::Duration heartbeat = absl::Seconds(launch.heartbeat_timeout);
  std::error_code none;
  program_ = {.path = launch.program.value_or(std::filesystem::read_symlink("/proc/self/exe", none).string()),
              .heartbeat_timeout = heartbeat,
              .connect_timeout = connect_timeout_ / 2};
  for (const std::string& name : names_) is_here_.push_back(IsThisHost(name));
  std::vector<AgentCommand> commands;
  for (const int host : all()) commands.push_back(CommandFor(host, program_));
  auto connector = std::make_unique<CommandConnector>(std::move(commands));
  connector_ = connector.get();
  agents_ = std::make_unique<Agents>(names_, std::move(connector),
                                     AgentsOptions{.version = FTUNE_VERSION,
                                                   .connect_timeout = connect_timeout_,
                                                   .heartbeat_timeout = heartbeat,
                                                   .connect_at_once = kHostsAtOnce});
}

AgentCommand HostAgents::CommandFor(int host, const AgentProgram& program) const {
  if (is_here_[host]) return LocalAgent(program);
  return slurm_ ? SrunAgent(names_[host], program) : SshAgent(names_[host], program);
}

std::vector<int> HostAgents::all() const {
  std::vector<int> hosts(is_here_.size());
  std::iota(hosts.begin(), hosts.end(), 0);
  return hosts;
}

std::map<int, absl::Status> HostAgents::ConnectTo(const std::vector<int>& hosts) {
  std::map<int, absl::Status> wrong;
  for (const HostFailure& failure : agents_->Connect(hosts)) wrong[failure.host] = failure.why;
  const std::string build = ProgramHash();
  for (const int host : hosts) {
    if (!agents_->connected(host) || agents_->facts(host).build == build) continue;
    wrong[host] = HostError(names_[host], "its ftune is another build of the same version",
                            "copy the program to all hosts (launch.copy_program: true does), or name it with "
                            "launch.program");
  }
  return wrong;
}

void HostAgents::BringProgram(std::map<int, absl::Status>& wrong) {
  std::vector<int> hosts;
  std::vector<std::vector<std::string>> commands;
  for (const auto& [host, why] : wrong) {
    if (is_here_[host]) continue;
    hosts.push_back(host);
    commands.push_back(slurm_ ? SrunCommand(names_[host], CopyCommand())
                              : SshWords(names_[host], program_, CopyCommand()));
  }
  const std::vector<absl::StatusOr<std::string>> copies = CopyProgram(commands, kHostsAtOnce);
  std::vector<int> again;
  for (size_t i = 0; i < hosts.size(); ++i) {
    const int host = hosts[i];
    if (!copies[i].ok()) {
      const std::optional<ErrorDetail> detail = DetailOf(copies[i].status());
      wrong[host] =
          HostError(names_[host], detail ? detail->message : std::string(copies[i].status().message()), "");
      continue;
    }
    agents_->Disconnect(host);
    AgentProgram program = program_;
    program.path = *copies[i];
    connector_->set_command(host, CommandFor(host, program));
    wrong.erase(host);
    again.push_back(host);
  }
  wrong.merge(ConnectTo(again));
}

std::map<int, absl::Status> HostAgents::Connect() {
  std::map<int, absl::Status> wrong = ConnectTo(all());
  if (copies_program_) BringProgram(wrong);
  std::map<std::string, std::string> names;  // by identity
  for (const int host : all()) {
    if (wrong.contains(host)) continue;
    const auto [other, is_new] = names.emplace(agents_->facts(host).identity, names_[host]);
    if (is_new) continue;
    wrong[host] = HostError(names_[host], StrCat("it is the same host as ", other->second),
                            "name each host once, with as many slots as it has ranks");
  }
  return wrong;
}

absl::StatusOr<AgentProbe> HostAgents::Probe(int host) const {
  return AgentProbe::Start(CommandFor(host, program_), connect_timeout_);
}

bool HostAgents::WouldDo(const AgentProbe& probe) const {
  // What is missing there is copied.
  if (copies_program_) return probe.reached();
  return probe.facts() && probe.facts()->version == FTUNE_VERSION && probe.facts()->build == ProgramHash();
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
