// What the command line of `ftune train` says.
#pragma once

#include <string>
#include <vector>

namespace ftune {

struct TrainOptions {
  std::string recipe;
  std::vector<std::string> overrides;
  bool force = false;
  bool print = false;
  bool dry_run = false;
  bool lr_range_test = false;
};

}  // namespace ftune
