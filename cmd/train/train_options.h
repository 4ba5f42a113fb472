// What the command line of `ftune train` says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

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
};

struct TrainOptions {
  std::string recipe;
  std::vector<std::string> overrides;
  bool force = false;
  bool print = false;
  bool dry_run = false;
  bool lr_range_test = false;
  std::optional<VerifyTask> verify;  // of `ftune verify`, which starts the ranks
  // None: the run begins. Otherwise it is known once the run's folder is taken.
  std::optional<ResumePoint> resume;
};

}  // namespace ftune
