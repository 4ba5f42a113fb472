// Where this process is within Slurm. A batch script has many of the variables of a step's tasks
// (SLURM_PROCID=0, and SLURM_NTASKS), so that none of them alone says anything; and a job that was submitted
// from within a step inherits that one's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/environment.h"

namespace ftune {

struct SlurmScope {
  enum class Kind {
    kNone,
    kAllocation,  // a batch script, or the shell of salloc: nodes are there, and srun starts tasks on them
    kStep,        // a task that srun has started
  };
  Kind kind = Kind::kNone;
  std::string job;                 // its number
  int restarts = 0;                // how often the job was queued again
  std::vector<std::string> nodes;  // of the allocation, or of the step
  std::string node;                // that this process is on; empty: none of them (salloc's shell)

  // Of a step.
  std::string step;                 // its number
  int task = 0;                     // this one
  int local_task = 0;               // on its node
  std::vector<int> tasks_per_node;  // one a node
  std::vector<int> tasks_here;      // this node's; empty where Slurm does not say

  int tasks() const;
  // Of this node.
  int local_tasks() const { return tasks_per_node[node_number]; }
  int node_number = 0;  // of this one, in `nodes`
  // Whether the allocation is this node and nothing else, so that nobody is needed to start anything.
  bool is_this_node() const { return nodes.size() == 1 && nodes[0] == node; }
};

// What the variables say. `enclosing` is EnclosingStep() of step_tasks.h. Errors, with exit code 2, name the
// variable that is missing or contradicts another.
absl::StatusOr<SlurmScope> ReadSlurm(const EnvironmentReader& environment,
                                     const std::optional<std::string>& enclosing);

}  // namespace ftune
