// A run as a Slurm job.
#pragma once

#include "absl/status/statusor.h"
#include "cmd/command.h"
#include "cmd/train/train_options.h"

namespace ftune {

// Writes the job's script to the run's folder and has sbatch submit it; says the job's number, the script and
// where its output goes. With --print the script goes to standard output, and nothing else is done. The
// script begins the run, or goes on with it, so that Slurm can start it as often as it likes; a run that is
// there is refused unless `options` go on with it.
absl::StatusOr<CommandResult> SubmitToSlurm(const TrainOptions& options, Verbosity verbosity);

}  // namespace ftune
