#include "parallel/launch/command_connector.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "parallel/launch/supervisor.h"

namespace ftune {
namespace {

constexpr absl::Duration kForWords = absl::Seconds(2);
constexpr absl::Duration kForEnd = absl::Seconds(3);

}  // namespace

absl::StatusOr<AgentConnection> CommandConnector::Connect(int host) {
  processes_.erase(host);
  FTUNE_ASSIGN_OR_RETURN(CommandProcess process, CommandProcess::Start(commands_[host].words));
  AgentConnection connection{.in = process.TakeOutput(), .out = process.TakeInput()};
  processes_.emplace(host, std::move(process));
  return connection;
}

std::string CommandConnector::WhyEnded(int host) {
  const auto process = processes_.find(host);
  if (process == processes_.end()) return "";
  const std::optional<int> status = process->second.Wait(kForWords);
  const std::string complaint = process->second.Complaint();
  if (!complaint.empty()) return complaint;
  return status && *status != 0 ? StrCat(commands_[host].name, " ", DescribeEnd(*status)) : "";
}

void CommandConnector::Disconnect(int host) {
  const auto process = processes_.find(host);
  if (process == processes_.end()) return;
  process->second.Wait(kForEnd);
  processes_.erase(process);
}

}  // namespace ftune
