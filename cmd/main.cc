// ftune: the command line.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/error.h"
#include "cmd/command.h"

int main(int argc, char** argv) {
  ftune::Invocation invocation;
  CLI::App app("Fine-tunes large language models, from a laptop to a cluster.", "ftune");
  app.set_version_flag("--version", FTUNE_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag("--json", invocation.json, "Print one JSON object on standard output");
  app.add_flag("--quiet", invocation.quiet, "Print no progress");
  app.add_flag("--verbose", invocation.verbose, "Print more on the way");

  ftune::AddTrain(app, invocation);
  ftune::AddGenerate(app, invocation);
  ftune::AddEval(app, invocation);
  ftune::AddExport(app, invocation);
  ftune::AddInspect(app, invocation);
  ftune::AddTokenize(app, invocation);
  ftune::AddTemplate(app, invocation);
  ftune::AddRecipe(app, invocation);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const absl::Status status = ftune::UsageError({.file = "command line",
                                                   .message = error.what(),
                                                   .hint = "see 'ftune --help' or 'ftune COMMAND --help'"});
    return ftune::ReportError(status, invocation.json);
  }

  const absl::StatusOr<ftune::CommandResult> result = invocation.run();
  if (!result.ok()) return ftune::ReportError(result.status(), invocation.json);
  if (invocation.json) {
    std::printf("%s\n", result->json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
  return result->exit;
}
