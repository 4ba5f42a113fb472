// Training as a command line asks for it: by this process alone, as one rank of several, or by starting them.
#pragma once

#include "absl/status/statusor.h"
#include "cmd/command.h"
#include "cmd/train/train_options.h"

namespace CLI {
class App;
}

namespace ftune {

absl::StatusOr<CommandResult> StartTraining(const TrainOptions& options, Invocation& invocation);

// The flags, which no user sees, of ranks that an ftune starts. `orders` outlives the parse.
void AddRankOrders(CLI::App& command, RankOrders& orders);

}  // namespace ftune
