// ftune agent: the part of `ftune train` that runs on each host. It is started by that, and by nobody else.

#include "parallel/launch/agent.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>
#include <utility>

#include "cmd/command.h"
#include "cmd/doctor/host_checks.h"

namespace ftune {

void AddAgent(CLI::App& app, Invocation& invocation) {
  auto seconds = std::make_shared<double>(30.0);
  CLI::App* command = app.add_subcommand("agent", "What ftune train starts on each host")->group("");
  command->add_option("--heartbeat-timeout", *seconds);
  command->callback([seconds, &invocation] {
    invocation.run = [seconds, &invocation]() -> absl::StatusOr<CommandResult> {
      std::signal(SIGPIPE, SIG_IGN);
      // Frames have descriptors of their own: whatever is printed goes to standard error.
      Descriptor in(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10));
      Descriptor out(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10));
      dup2(STDERR_FILENO, STDOUT_FILENO);
      const Descriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
      dup2(null.get(), STDIN_FILENO);
      invocation.json = false;
      return CommandResult{.exit =
                               ServeAgent(std::move(in), std::move(out),
                                          {.version = FTUNE_VERSION,
                                           .heartbeat_timeout = absl::Seconds(*seconds),
                                           .examine = [](const nlohmann::json& facts) -> nlohmann::json {
                                             return {{"checks", CheckHost(facts.get<HostCheckOptions>())}};
                                           }})};
    };
  });
}

}  // namespace ftune
