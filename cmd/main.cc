// ftune: the command line.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/command.h"
#include "cmd/recipe/nearest.h"

namespace ftune {
namespace {

// An error where the first word is not a subcommand, or the next not one of its own: CLI11 would only say
// that one is missing.
absl::Status CheckCommand(const CLI::App& app, int argc, char** argv) {
  const CLI::App* level = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("-")) continue;
    std::vector<std::string> commands;
    const CLI::App* found = nullptr;
    for (const CLI::App* command : level->get_subcommands(nullptr)) {
      commands.push_back(command->get_name());
      if (commands.back() == word) found = command;
    }
    if (commands.empty()) return absl::OkStatus();
    if (found == nullptr) {
      const std::optional<std::string> meant = Nearest(word, commands);
      return UsageError({.file = "command line",
                         .key = word,
                         .message = "unknown command",
                         .expected = StrJoin(commands, ", "),
                         .hint = meant ? StrCat("did you mean ", *meant, "?") : "see 'ftune --help'"});
    }
    level = found;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace ftune

int main(int argc, char** argv) {
  // A write beyond the limit on the size of files (ulimit -f) shall fail, not end the process.
  std::signal(SIGXFSZ, SIG_IGN);

  ftune::Invocation invocation;
  CLI::App app("Fine-tunes large language models, from a laptop to a cluster.", "ftune");
  app.set_version_flag("--version", FTUNE_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag("--json", invocation.json, "Print one JSON object on standard output");
  app.add_flag("--quiet", invocation.quiet, "Print no progress");
  app.add_flag("--verbose", invocation.verbose, "Print more on the way");

  ftune::AddTrain(app, invocation);
  ftune::AddResume(app, invocation);
  ftune::AddGenerate(app, invocation);
  ftune::AddEval(app, invocation);
  ftune::AddExport(app, invocation);
  ftune::AddCheckpoint(app, invocation);
  ftune::AddData(app, invocation);
  ftune::AddInspect(app, invocation);
  ftune::AddTokenize(app, invocation);
  ftune::AddTemplate(app, invocation);
  ftune::AddVerify(app, invocation);
  ftune::AddPlan(app, invocation);
  ftune::AddBench(app, invocation);
  ftune::AddDoctor(app, invocation);
  ftune::AddRecipe(app, invocation);
  ftune::AddStatus(app, invocation);
  ftune::AddLogs(app, invocation);
  ftune::AddStop(app, invocation);
  ftune::AddAgent(app, invocation);

  if (const absl::Status known = ftune::CheckCommand(app, argc, argv); !known.ok()) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    return ftune::ReportError(known, std::find(words.begin(), words.end(), "--json") != words.end());
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const absl::Status status = ftune::UsageError({.file = "command line",
                                                   .message = error.what(),
                                                   .hint = "see 'ftune --help' or 'ftune COMMAND --help'"});
    return ftune::ReportError(status, invocation.json);
  }

  const absl::StatusOr<ftune::CommandResult> result = ftune::RunGuarded(invocation.run);
  if (!result.ok()) return ftune::ReportError(result.status(), invocation.json);
  if (invocation.json) {
    std::printf("%s\n", result->json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    std::fputs(result->text.c_str(), stdout);
  }
  return result->exit;
}
