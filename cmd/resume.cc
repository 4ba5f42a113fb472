// ftune resume RUN: goes on with a run, on the same mesh or another one.

#include <CLI/CLI.hpp>
#include <memory>

#include "cmd/command.h"
#include "cmd/train/start_training.h"
#include "cmd/train/train_options.h"

namespace ftune {

void AddResume(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("resume", "Goes on with a run from its newest checkpoint");
  command->add_option("RUN", options->run, "The folder of a run")->required();
  command->add_option("OVERRIDES", options->overrides,
                      "key.sub=value, instead of what the run's recipe says; `ftune recipe --reference` says "
                      "which keys may change");
  command->add_option("--step", options->step, "Go on from the checkpoint of this step");
  command->add_flag("--print", options->print, "Print the resolved recipe and do nothing");
  AddRankOrders(*command, options->orders);
  command->callback([options, &invocation] {
    invocation.run = [options, &invocation] { return StartTraining(*options, invocation); };
  });
}

}  // namespace ftune
