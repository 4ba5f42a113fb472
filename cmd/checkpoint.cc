// ftune checkpoint ls|verify|show|diff|rm: the checkpoints of a run.

#include <CLI/CLI.hpp>
#include <memory>

#include "cmd/checkpoint/commands.h"
#include "cmd/command.h"

namespace ftune {
namespace {

using Work = absl::StatusOr<CommandResult> (*)(const CheckpointOptions& options, Progress& progress);

struct Word {
  const char* name;
  const char* about;
  const char* names;       // of the positional arguments
  const char* step;        // about --step; null: there is none
  const char* force;       // likewise
  const char* superseded;  // likewise
  Work work;
};

constexpr Word kWords[] = {
    {"ls", "Lists the checkpoints of a run, the newest first", "A run's folder",
     "The checkpoint of this step alone", nullptr, nullptr,
     [](const CheckpointOptions& options, Progress&) { return ShowCheckpointList(options); }},
    {"verify", "Reads checkpoints whole and compares them with what was written",
     "A run's folder, or a checkpoint's", "The checkpoint of this step alone", nullptr, nullptr,
     VerifyCheckpoints},
    {"show", "What is in a checkpoint: state, mesh, tensors", "A run's folder, or a checkpoint's",
     "The checkpoint of this step (default: the newest)", nullptr, nullptr,
     [](const CheckpointOptions& options, Progress&) { return ShowCheckpoint(options); }},
    {"diff", "How two checkpoints differ: tensors, state, recipe",
     "Two checkpoints or runs (which stand for their newest), or a run and two steps", nullptr, nullptr,
     nullptr, [](const CheckpointOptions& options, Progress&) { return DiffCheckpoints(options); }},
    {"rm", "Removes a checkpoint of a run", "A run's folder", "The checkpoint to remove",
     "Also the only one that is whole", "Those that are set aside, as a run went back behind them",
     [](const CheckpointOptions& options, Progress&) { return RemoveCheckpoints(options); }},
};

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
  if (word.superseded != nullptr) command->add_flag("--superseded", options->superseded, word.superseded);
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
  command->require_subcommand(1);
  for (const Word& word : kWords) AddWord(*command, word, invocation);
}

}  // namespace ftune
