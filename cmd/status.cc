// ftune status RUN: where a run is.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/folder.h"
#include "base/unix_clock.h"
#include "cmd/command.h"
#include "cmd/observed_run.h"
#include "cmd/report/status_text.h"
#include "cmd/status_request.h"

namespace ftune {
namespace {

absl::StatusOr<CommandResult> ShowStatus(const std::string& run) {
  const bool elsewhere = !Exists(run) && NamesServer(run);
  FTUNE_ASSIGN_OR_RETURN(const RunStatus status, elsewhere ? RequestStatus(run) : ObserveRun(run));
  return CommandResult{.json = ToJson(status), .text = StatusText(status, UnixNow())};
}

}  // namespace

void AddStatus(CLI::App& app, Invocation& invocation) {
  auto run = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("status", "Shows where a run is");
  command->add_option("RUN", *run, "The folder of a run, or HOST:PORT of its log.metrics_port")->required();
  command->callback([run, &invocation] { invocation.run = [run] { return ShowStatus(*run); }; });
}

}  // namespace ftune
