// ftune logs RUN: what the ranks of a run have written, and write.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "cmd/command.h"
#include "cmd/observed_run.h"
#include "cmd/rank_logs.h"
#include "cmd/run_folder.h"

namespace ftune {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(200);
constexpr int kLooksBetweenStates = 5;

struct LogsOptions {
  std::string run;
  std::string rank = "0";  // or "all"
  std::optional<int> attempt;
  bool follow = false;
};

absl::StatusOr<std::optional<int>> RankOf(const std::string& text) {
  if (text == "all") return std::optional<int>();
  int rank = 0;
  if (absl::SimpleAtoi(text, &rank) && rank >= 0) return std::optional<int>(rank);
  return UsageError(
      {.file = "command line", .key = "--rank", .found = text, .expected = "the number of a rank, or all"});
}

absl::Status CheckAttempt(const RunPaths& paths, int attempt, std::optional<int> rank) {
  if (!Exists(paths.attempt(attempt))) {
    return UsageError({.file = paths.ranks().string(),
                       .key = "--attempt",
                       .message = StrCat("there are no logs of attempt ", attempt)});
  }
  FTUNE_ASSIGN_OR_RETURN(const std::vector<int> ranks, RanksWithLogs(paths, attempt));
  if (!rank || std::find(ranks.begin(), ranks.end(), *rank) != ranks.end()) return absl::OkStatus();
  return UsageError({.file = paths.attempt(attempt).string(),
                     .key = "--rank",
                     .found = StrCat(*rank),
                     .expected = StrCat("a rank of this attempt: ", StrJoin(ranks, ", "))});
}

// The last attempt, where none is asked for.
absl::StatusOr<int> FirstAttempt(const RunPaths& paths, const LogsOptions& options) {
  if (options.attempt) return *options.attempt;
  FTUNE_ASSIGN_OR_RETURN(const int last, LastAttemptWithLogs(paths));
  if (last > 0) return last;
  return UsageError({.file = paths.ranks().string(),
                     .message =
                         "this run has no logs of ranks: what a run of one rank says, it says where it "
                         "was called",
                     .hint = "its steps are in log.jsonl; see also `ftune status`"});
}

// Until the run has ended, or the attempt that was asked for.
absl::Status Follow(const RunPaths& paths, const LogsOptions& options, std::optional<int> rank,
                    RankLogs logs) {
  bool ended = false;
  for (int look = 0; !ended; ++look) {
    if (look % kLooksBetweenStates == 0) {
      FTUNE_ASSIGN_OR_RETURN(const RunStatus status, ObserveRun(paths.folder));
      ended = HasEnded(status.state);
    }
    FTUNE_ASSIGN_OR_RETURN(const int last, LastAttemptWithLogs(paths));
    FTUNE_RETURN_IF_ERROR(logs.Print());
    if (last > logs.attempt()) {
      logs.PrintRest();
      if (options.attempt) return absl::OkStatus();
      std::fprintf(stderr, "attempt %d:\n", last);
      logs = RankLogs(paths, last, rank);
      ended = false;
      continue;
    }
    if (!ended) absl::SleepFor(kLook);
  }
  logs.PrintRest();
  return absl::OkStatus();
}

absl::StatusOr<CommandResult> ShowLogs(const LogsOptions& options, bool json) {
  const RunPaths paths(options.run);
  FTUNE_ASSIGN_OR_RETURN(const std::optional<int> rank, RankOf(options.rank));
  FTUNE_RETURN_IF_ERROR(ObserveRun(paths.folder).status());
  FTUNE_ASSIGN_OR_RETURN(const int attempt, FirstAttempt(paths, options));
  FTUNE_RETURN_IF_ERROR(CheckAttempt(paths, attempt, rank));
  if (json) {
    return UsageError({.file = "command line",
                       .key = "--json",
                       .message = "logs are text",
                       .hint = "log.jsonl of the run is JSON, and so is `ftune status --json`"});
  }
  RankLogs logs(paths, attempt, rank);
  if (options.follow) {
    FTUNE_RETURN_IF_ERROR(Follow(paths, options, rank, std::move(logs)));
  } else {
    FTUNE_RETURN_IF_ERROR(logs.Print());
    logs.PrintRest();
  }
  return CommandResult{};
}

}  // namespace

void AddLogs(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<LogsOptions>();
  CLI::App* command = app.add_subcommand("logs", "Shows what the ranks of a run have written");
  command->add_option("RUN", options->run, "The folder of a run")->required();
  command->add_option("--rank", options->rank, "Of this rank (0), or all");
  command->add_option("--attempt", options->attempt, "Of this attempt, not the last");
  command->add_flag("-f,--follow", options->follow,
                    "Go on with what they write, also after a restart, until the run has ended");
  command->callback([options, &invocation] {
    invocation.run = [options, &invocation] { return ShowLogs(*options, invocation.json); };
  });
}

}  // namespace ftune
