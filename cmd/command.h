// What the subcommands share: the global flags, and how a result or an error reaches the user.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cmd/report/progress.h"

namespace CLI {
class App;
}

namespace ftune {

// What a subcommand gives back: the object for --json, and the exit code.
struct CommandResult {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  std::string text;  // for standard output without --json, whole lines
  int exit = 0;
};

// One call of ftune. A subcommand, when it is the one named, sets `run`.
struct Invocation {
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  std::function<absl::StatusOr<CommandResult>()> run;

  Verbosity verbosity() const {
    if (quiet) return Verbosity::kQuiet;
    return verbose ? Verbosity::kVerbose : Verbosity::kNormal;
  }
};

// One a file: adds the subcommand and its flags to `app`. `invocation` outlives the parse.
void AddAgent(CLI::App& app, Invocation& invocation);
void AddTrain(CLI::App& app, Invocation& invocation);
void AddResume(CLI::App& app, Invocation& invocation);
void AddGenerate(CLI::App& app, Invocation& invocation);
void AddEval(CLI::App& app, Invocation& invocation);
void AddExport(CLI::App& app, Invocation& invocation);
void AddCheckpoint(CLI::App& app, Invocation& invocation);
void AddData(CLI::App& app, Invocation& invocation);
void AddInspect(CLI::App& app, Invocation& invocation);
void AddTokenize(CLI::App& app, Invocation& invocation);
void AddTemplate(CLI::App& app, Invocation& invocation);
void AddVerify(CLI::App& app, Invocation& invocation);
void AddPlan(CLI::App& app, Invocation& invocation);
void AddBench(CLI::App& app, Invocation& invocation);
void AddDoctor(CLI::App& app, Invocation& invocation);
void AddRecipe(CLI::App& app, Invocation& invocation);
void AddStatus(CLI::App& app, Invocation& invocation);
void AddLogs(CLI::App& app, Invocation& invocation);
void AddStop(CLI::App& app, Invocation& invocation);

// Runs, with what it throws (memory that cannot be had, a file system's fault) as a status. `who` is the key
// of errors of the machine: a rank, where there are several.
absl::StatusOr<CommandResult> RunGuarded(const std::function<absl::StatusOr<CommandResult>()>& run,
                                         const std::string& who = "");
// What is being handled at the moment, if it is one of those.
std::optional<absl::Status> CaughtError(const std::string& who);

// Prints a failure (on standard error, or as JSON on standard output) and gives the exit code.
int ReportError(const absl::Status& status, bool json);

// Colour is used on a terminal, unless NO_COLOR is set.
bool UseColour(std::FILE* out);

}  // namespace ftune
