// ftune train RECIPE: fine-tunes a model, with the ranks that the recipe names or a launcher has started.

#include <CLI/CLI.hpp>
#include <memory>

#include "cmd/command.h"
#include "cmd/train/start_training.h"
#include "cmd/train/train_options.h"

namespace ftune {

void AddTrain(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Fine-tunes a model as a recipe says");
  command->add_option("RECIPE", options->recipe, "A recipe (YAML)")->required();
  command->add_option("OVERRIDES", options->overrides, "key.sub=value, instead of what the recipe says");
  command->add_flag("--resume", options->resume_if_begun,
                    "Go on where output_dir has a run, begin where there is none");
  command->add_flag(
      "--force", options->force,
      "Replace the run that output_dir has, and train also where the plan says that it does not fit");
  command->add_flag("--slurm", options->slurm, "Submit a Slurm job that trains, as launch.slurm says");
  command->add_flag("--print", options->print,
                    "Print the resolved recipe and do nothing; with --slurm, the job's script");
  command->add_flag("--dry-run", options->dry_run, "Read the data and plan the steps, but do not train");
  command->add_flag(
      "--lr-range-test", options->lr_range_test,
      "Train a little at rising learning rates, plot the loss and suggest one; keep no weights");
  AddRankOrders(*command, options->orders);
  // What `ftune verify` tells its ranks.
  auto verify = std::make_shared<VerifyTask>();
  command->add_option("--verify-reference", verify->reference)->group("");
  command->add_option("--verify-steps", verify->steps)->group("");
  command->callback([options, verify, &invocation] {
    if (!verify->reference.empty()) options->verify = *verify;
    invocation.run = [options, &invocation] { return StartTraining(*options, invocation); };
  });
}

}  // namespace ftune
