// ftune checkpoint ls|verify|show|diff|rm: the checkpoints of a run.

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/checkpoint/commands.h"
#include "cmd/command.h"
#include "cmd/recipe/nearest.h"

namespace ftune {
namespace {

using Work = absl::StatusOr<CommandResult> (*)(const CheckpointOptions& options, Progress& progress);

struct Word {
  const char* name;
  const char* about;
  const char* names;  // of the positional arguments
  const char* step;   // about --step; null: there is none
  const char* force;  // likewise
  Work work;
};

constexpr Word kWords[] = {
    {"ls", "Lists the checkpoints of a run, the newest first", "A run's folder",
     "The checkpoint of this step alone", nullptr,
     [](const CheckpointOptions& options, Progress&) { return ShowCheckpointList(options); }},
    {"verify", "Reads checkpoints whole and compares them with what was written",
     "A run's folder, or a checkpoint's", "The checkpoint of this step alone", nullptr, VerifyCheckpoints},
    {"show", "What is in a checkpoint: state, mesh, tensors", "A run's folder, or a checkpoint's",
     "The checkpoint of this step (default: the newest)", nullptr,
     [](const CheckpointOptions& options, Progress&) { return ShowCheckpoint(options); }},
    {"diff", "How two checkpoints differ: tensors, state, recipe",
     "Two checkpoints or runs (which stand for their newest), or a run and two steps", nullptr, nullptr,
     [](const CheckpointOptions& options, Progress&) { return DiffCheckpoints(options); }},
    {"rm", "Removes a checkpoint of a run", "A run's folder", "The checkpoint to remove",
     "Also the only one that is whole",
     [](const CheckpointOptions& options, Progress&) { return RemoveCheckpoints(options); }},
};

absl::Status NoSuchWord(const std::string& word) {
  std::vector<std::string> words;
  for (const Word& known : kWords) words.push_back(known.name);
  const std::optional<std::string> meant = word.empty() ? std::nullopt : Nearest(word, words);
  return UsageError({.file = "command line",
                     .key = "checkpoint",
                     .found = word.empty() ? "nothing" : StrCat("'", word, "'"),
                     .expected = StrCat("one of ", StrJoin(words, ", "), ", and a run"),
                     .hint = meant ? StrCat("did you mean ", *meant, "?") : ""});
}

void AddWord(CLI::App& parent, const Word& word, Invocation& invocation) {
  auto options = std::make_shared<CheckpointOptions>();
  CLI::App* command = parent.add_subcommand(word.name, word.about);
  CLI::Option* names = command->add_option("RUN", options->names, word.names)->required();
  if (word.step != nullptr) {
    names->expected(1);
    command->add_option("--step", options->step, word.step);
  } else {
    names->expected(2, 3);
  }
  if (word.force != nullptr) command->add_flag("--force", options->force, word.force);
  command->callback([options, &word, &invocation] {
    invocation.run = [options, &word, &invocation] {
      Progress progress(stderr, invocation.verbosity());
      return word.work(*options, progress);
    };
  });
}

}  // namespace

void AddCheckpoint(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("checkpoint", "Lists, checks, shows, compares, removes checkpoints");
  for (const Word& word : kWords) AddWord(*command, word, invocation);
  command->allow_extras();
  command->callback([command, &invocation] {
    if (!command->get_subcommands().empty()) return;
    const std::vector<std::string> rest = command->remaining();
    invocation.run = [word = rest.empty() ? std::string() : rest.front()] { return NoSuchWord(word); };
  });
}

}  // namespace ftune
