// What runs on this node of the step that this process is of: Slurm's daemon of the step, and its tasks.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>

namespace ftune {

struct StepDaemon {
  pid_t pid = 0;
  std::string step;  // as it calls it: "27.batch", "27.0"
};
// The one that this process descends from.
std::optional<StepDaemon> EnclosingDaemon();
// Its step.
std::optional<std::string> EnclosingStep();

// The numbers (SLURM_PROCID) of the tasks of a step that live on this node. Nothing where some process of the
// daemon does not say its own, as between its fork and its exec.
std::optional<std::set<int>> LiveTasks(const StepDaemon& daemon);

}  // namespace ftune
