// What the command lines of `ftune train` and `ftune resume` say.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cmd/run_options.h"
#include "parallel/launch/host_list.h"

namespace ftune {

// Instead of training: a few steps that other meshes are compared with, or that are compared.
struct VerifyTask {
  std::filesystem::path reference;  // the folder of a VerifyReference
  int64_t steps = 0;                // to be run and left there; 0: to be compared with those
};

// Where a run goes on.
struct ResumePoint {
  int64_t step = 0;
  std::filesystem::path folder;  // of the checkpoint; empty: there is none yet, and the step is 0
  std::optional<InitInCheckpoint> init = std::nullopt;  // where the checkpoint makes model.init_from needless
};

// What an ftune that starts ranks tells them.
struct RankOrders {
  std::vector<std::string> derived;  // overrides that stand for what is auto
  int attempt = 1;                   // of the run
  std::optional<int64_t> resume;     // a run goes on, from this step
  bool recipe_on_input = false;      // the recipe comes over standard input, and has its name alone
  bool recipe_of_first = false;      // it is that of rank 0, on another host
  std::string folder;                // instead of output_dir, whose mirror it is; empty: that itself
};

struct TrainOptions {
  std::string recipe;
  std::string run;  // of `ftune resume`, instead of a recipe: the run's folder
  std::vector<std::string> overrides;
  bool force = false;
  bool print = false;
  bool slurm = false;  // submits a job that trains
  bool dry_run = false;
  bool lr_range_test = false;
  bool resume_if_begun = false;      // `train --resume`: goes on where output_dir has a run
  int least_attempt = 1;             // of the run: a Slurm job knows how often it was queued again
  std::optional<int64_t> step;       // of `ftune resume`: the checkpoint to go on from
  std::optional<VerifyTask> verify;  // of `ftune verify`, which starts the ranks
  RankOrders orders;
  // Those of the recipe's hosts that there are ranks on, with their number, where it is not all of them.
  std::optional<std::vector<HostSlots>> hosts;
  // None: the run begins. Otherwise it is known once the run's folder is taken.
  std::optional<ResumePoint> resume;
};

}  // namespace ftune
