#include "cmd/status_request.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "base/error.h"
#include "base/http/http_client.h"
#include "base/http/network_library.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr int kMostPort = 65535;
constexpr int kOk = 200;

std::optional<Url> StatusPage(const std::string& server) {
  const size_t colon = server.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 || server.find('/') != std::string::npos) return std::nullopt;
  if (!absl::SimpleAtoi(server.substr(colon + 1), &port) || port < 1 || port > kMostPort) return std::nullopt;
  return ParseUrl(StrCat("http://", server, "/status"));
}

}  // namespace

bool NamesServer(const std::string& text) { return StatusPage(text).has_value(); }

absl::StatusOr<RunStatus> RequestStatus(const std::string& server) {
  const Url url = *StatusPage(server);
  FTUNE_ASSIGN_OR_RETURN(Network* const network,
                         LoadNetwork("questions to a server", "ask by the run's folder"));
  HttpClientOptions options = {.user_agent = "ftune"};
  options.environment = [](const char*) { return std::nullopt; };  // no proxy knows the hosts of a cluster
  FTUNE_ASSIGN_OR_RETURN(const HttpAnswer answer, HttpClient(*network, options).Get(url, {}));
  if (!answer.ok()) {
    return UsageError({.key = server,
                       .message = StrCat("no run can be asked there: ", answer.problem),
                       .hint =
                           "the address is that of log.metrics_port, which the run says at its start; a run "
                           "that has ended is known by its folder alone"});
  }
  if (answer.head.status != kOk) {
    return UsageError(
        {.key = server,
         .message = StrCat("what answers there is no run of ftune (status ", answer.head.status, ")")});
  }
  return ParseRunStatus(answer.body, server);
}

}  // namespace ftune
