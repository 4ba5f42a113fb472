#include "parallel/launch/ssh_connector.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "parallel/launch/host_identity.h"
#include "parallel/launch/supervisor.h"

namespace ftune {
namespace {

constexpr absl::Duration kForWords = absl::Seconds(2);
constexpr absl::Duration kForEnd = absl::Seconds(3);

// One word for a POSIX shell.
std::string Quoted(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string WholeSeconds(absl::Duration duration) {
  return StrCat(std::max<int64_t>(1, absl::ToInt64Seconds(absl::Ceil(duration, absl::Seconds(1)))));
}

bool SameAddress(const sockaddr* a, const sockaddr* b) {
  if (a == nullptr || a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  return a->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

}  // namespace

bool IsThisHost(const std::string& name) {
  if (name == "localhost" || name == HostName()) return true;
  if (name.find('@') != std::string::npos) return false;  // as another user
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> own(list, &freeifaddrs);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    for (const ifaddrs* interface = list; interface != nullptr; interface = interface->ifa_next) {
      if (SameAddress(interface->ifa_addr, address->ai_addr)) return true;
    }
  }
  return false;
}

SshConnector::SshConnector(std::vector<SshHost> hosts, const SshOptions& options)
    : hosts_(std::move(hosts)), options_(options) {}

std::vector<std::string> SshConnector::CommandFor(const SshHost& host) const {
  const std::string timeout =
      StrCat("--heartbeat-timeout=", absl::ToDoubleSeconds(options_.heartbeat_timeout));
  if (host.local) return {"/proc/self/exe", "agent", timeout};
  // Nothing of the run is among the words that a shell on the other host reads: that comes over standard
  // input.
  const absl::Duration interval = std::max(options_.heartbeat_timeout / 3, absl::Seconds(1));
  return {"ssh",
          "-T",
          "-oBatchMode=yes",
          "-oLogLevel=ERROR",
          StrCat("-oConnectTimeout=", WholeSeconds(options_.connect_timeout)),
          StrCat("-oServerAliveInterval=", WholeSeconds(interval)),
          "-oServerAliveCountMax=3",
          "--",
          host.name,
          StrCat("exec ", Quoted(options_.program), " agent ", timeout)};
}

absl::StatusOr<AgentConnection> SshConnector::Connect(int host) {
  processes_.erase(host);
  FTUNE_ASSIGN_OR_RETURN(CommandProcess process, CommandProcess::Start(CommandFor(hosts_[host])));
  AgentConnection connection{.in = process.TakeOutput(), .out = process.TakeInput()};
  processes_.emplace(host, std::move(process));
  return connection;
}

std::string SshConnector::WhyEnded(int host) {
  const auto process = processes_.find(host);
  if (process == processes_.end()) return "";
  const std::optional<int> status = process->second.Wait(kForWords);
  const std::string complaint = process->second.Complaint();
  if (!complaint.empty()) return complaint;
  return status && *status != 0 ? StrCat(hosts_[host].local ? "its agent " : "ssh ", DescribeEnd(*status))
                                : "";
}

void SshConnector::Disconnect(int host) {
  const auto process = processes_.find(host);
  if (process == processes_.end()) return;
  process->second.Wait(kForEnd);
  processes_.erase(process);
}

}  // namespace ftune
