#include "parallel/launch/agent_command.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/shell_quote.h"
#include "base/strings.h"
#include "parallel/launch/host_identity.h"
#include "parallel/launch/slurm/srun_command.h"

namespace ftune {
namespace {

std::vector<std::string> AgentWords(const std::string& path, const AgentProgram& program) {
  return {path, "agent", StrCat("--heartbeat-timeout=", absl::ToDoubleSeconds(program.heartbeat_timeout))};
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

AgentCommand LocalAgent(const AgentProgram& program) {
  return {.name = "its agent", .words = AgentWords("/proc/self/exe", program)};
}

std::vector<std::string> SshWords(const std::string& host, const AgentProgram& program,
                                  const std::vector<std::string>& command) {
  const absl::Duration interval = std::max(program.heartbeat_timeout / 3, absl::Seconds(1));
  return {"ssh",
          "-T",
          "-oBatchMode=yes",
          "-oLogLevel=ERROR",
          StrCat("-oConnectTimeout=", WholeSeconds(program.connect_timeout)),
          StrCat("-oServerAliveInterval=", WholeSeconds(interval)),
          "-oServerAliveCountMax=3",
          "--",
          host,
          StrCat("exec ", ShellQuote(command))};
}

AgentCommand SshAgent(const std::string& host, const AgentProgram& program) {
  // Nothing of the run is among the words that a shell on the other host reads: that comes over standard
  // input.
  return {.name = "ssh", .words = SshWords(host, program, AgentWords(program.path, program))};
}

AgentCommand SrunAgent(const std::string& node, const AgentProgram& program) {
  return {.name = "srun", .words = SrunCommand(node, AgentWords(program.path, program))};
}

}  // namespace ftune
