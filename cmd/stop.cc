// ftune stop RUN: ends a run, with a checkpoint or without.

extern "C" {  // glibc 2.36 leaves it out
#include <sys/pidfd.h>
}

#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/monotonic_clock.h"
#include "base/strings.h"
#include "cmd/command.h"
#include "cmd/observed_run.h"
#include "cmd/recipe/units.h"
#include "cmd/report/status_text.h"
#include "cmd/run_folder.h"
#include "cmd/stop_request.h"

namespace ftune {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(100);
constexpr int kSaved = static_cast<int>(ExitCode::kPreempted);

struct StopOptions {
  std::string run;
  bool save = false;
  std::string timeout = "60s";
};

// To the leader itself, and no process that has got its number since. False where it is not on this host, or
// is somebody else's.
bool Signal(const LeaderStatus& leader, int signal) {
  const Descriptor process(pidfd_open(leader.pid, 0));
  return process && LeaderIsHere(leader) && pidfd_send_signal(process.get(), signal, nullptr, 0) == 0;
}

absl::Status Ask(const RunPaths& paths, const RunStatus& status, bool save) {
  // What SIGTERM does is to save and end; there is none that ends all ranks without saving.
  if (save && Signal(status.leader, SIGTERM)) return absl::OkStatus();
  return WriteStopRequest(paths, save ? StopRequest::kSave : StopRequest::kNow);
}

absl::StatusOr<RunStatus> AwaitEnd(const RunPaths& paths, absl::Duration timeout) {
  const absl::Duration until = MonotonicNow() + timeout;
  while (true) {
    FTUNE_ASSIGN_OR_RETURN(const RunStatus status, ObserveRun(paths.folder));
    if (HasEnded(status.state)) return status;
    if (MonotonicNow() >= until) {
      return UserError(
          ExitCode::kTimeout,
          {.file = paths.folder.string(),
           .message = StrCat("the run has been asked to stop, and has not ended within ",
                             absl::FormatDuration(timeout), ": it is ", Name(status.state), " at step ",
                             status.figures.step),
           .hint = StrCat("wait longer (--timeout), see what it does with `ftune status`, or end process ",
                          status.leader.pid, " on ", status.leader.host, " with SIGKILL")});
    }
    absl::SleepFor(kLook);
  }
}

absl::StatusOr<CommandResult> StopRun(const StopOptions& options) {
  const std::optional<double> seconds = ParseDuration(options.timeout);
  if (!seconds) {
    return UsageError({.file = "command line",
                       .key = "--timeout",
                       .found = options.timeout,
                       .expected = "a duration, as 30s or 5m"});
  }
  const RunPaths paths(options.run);
  FTUNE_ASSIGN_OR_RETURN(const RunStatus before, ObserveRun(paths.folder));
  if (HasEnded(before.state)) {
    return CommandResult{.json = ToJson(before),
                         .text = StrCat("nothing to stop: the run is ", EndText(before), "\n")};
  }
  FTUNE_RETURN_IF_ERROR(Ask(paths, before, options.save));
  const absl::StatusOr<RunStatus> after = AwaitEnd(paths, absl::Seconds(*seconds));
  RemoveStopRequest(paths);  // which would stop the run when it goes on
  FTUNE_RETURN_IF_ERROR(after.status());
  const TrainingFigures& figures = after->figures;
  const int64_t kept = figures.checkpoint ? figures.checkpoint->step : 0;
  const bool saved = after->state == RunState::kDone || after->exit == kSaved || kept == figures.step;
  if (options.save && !saved) {
    return UserError(ExitCode::kRankFailed, {.file = paths.folder.string(),
                                             .message = StrCat("the run has ended, but without a "
                                                               "checkpoint: ",
                                                               EndText(*after))});
  }
  CommandResult result = {.json = ToJson(*after), .text = StrCat(EndText(*after), "\n")};
  if (after->state != RunState::kDone) StrAppend(result.text, "to go on: ftune resume ", options.run, "\n");
  return result;
}

}  // namespace

void AddStop(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<StopOptions>();
  CLI::App* command = app.add_subcommand("stop", "Ends a run at once");
  command->add_option("RUN", options->run, "The folder of a run")->required();
  command->add_flag("--save", options->save, "Have it save a checkpoint first");
  command->add_option("--timeout", options->timeout, "How long to wait for its end (60s)");
  command->callback([options, &invocation] { invocation.run = [options] { return StopRun(*options); }; });
}

}  // namespace ftune
