// Everything that a recipe leaves to ftune, decided before the run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cmd/recipe/load.h"
#include "parallel/launch/rank_environment.h"

namespace ftune {

struct Environment {
  int cores = 1;
  bool has_cuda = false;                      // a CUDA device that this build can train on
  int ranks = 0;                              // that a launcher has started; 0: ftune is to start them
  int ranks_per_host = 0;                     // of those; 0: not known
  RankSource source = RankSource::kLauncher;  // of those
  // Ranks on each of the hosts that the recipe names; 0: not said. Empty: ftune starts all ranks on this
  // host.
  std::vector<int> slots = {};
  bool slurm = false;              // those hosts are the nodes of a Slurm job
  std::string slots_said_by = {};  // a flag that has named those hosts instead of the recipe

  // How many ranks there are on those, with so many where nothing is said.
  int64_t RanksOnHosts(int64_t per_host) const;
};

// What output_dir is where it is auto, of a recipe in this file.
std::string DefaultOutput(const std::string& file);

// Replaces `auto` by values: sizes of the batch and the mesh, device and number formats, learning rate, …
// Left for later are what only the model (data.chat_template, parallel.stages), the data (their format and
// what becomes of long rows) and the clock (checkpoint.save_steps) can tell. Sizes that were given and do not
// fit each other are an error. Resolving again changes nothing; `loaded.given` keeps what there was at first.
absl::Status Resolve(LoadedRecipe& loaded, const Environment& environment);

}  // namespace ftune
