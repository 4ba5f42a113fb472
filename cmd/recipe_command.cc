// ftune recipe: the recipe's keys described, or a recipe checked.

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "cmd/command.h"
#include "cmd/recipe/document.h"
#include "cmd/run_options.h"

namespace ftune {
namespace {

struct Options {
  bool schema = false;
  bool reference = false;
  std::string check;
};

absl::StatusOr<CommandResult> Run(const Options& options, const Invocation& invocation) {
  if (options.schema + options.reference + !options.check.empty() != 1) {
    return UsageError(
        {.file = "command line", .expected = "one of --schema, --reference and --check RECIPE"});
  }
  if (!options.check.empty()) {
    FTUNE_ASSIGN_OR_RETURN(const LoadedRecipe loaded, OpenRecipe(options.check, {}));
    if (!invocation.json) std::printf("%s: good\n", options.check.c_str());
    return CommandResult{.json = {{"ok", true}}};
  }
  if (options.schema) {
    const nlohmann::ordered_json schema = RecipeSchema();
    if (!invocation.json) std::printf("%s\n", schema.dump(2).c_str());
    return CommandResult{.json = schema};
  }
  const std::string reference = RecipeReference();
  if (!invocation.json) std::printf("%s", reference.c_str());
  return CommandResult{.json = {{"reference", reference}}};
}

}  // namespace

void AddRecipe(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("recipe", "The recipe's keys, or a recipe checked");
  command->add_flag("--schema", options->schema, "JSON schema");
  command->add_flag("--reference", options->reference,
                    "All keys with types, defaults and meanings (Markdown)");
  command->add_option("--check", options->check, "Check this recipe");
  command->callback([options, &invocation] {
    invocation.run = [options, &invocation] { return Run(*options, invocation); };
  });
}

}  // namespace ftune
