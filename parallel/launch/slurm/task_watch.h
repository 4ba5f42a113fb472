// The tasks of a step are not supervised: Slurm leaves the others running when one ends, unless it was told
// otherwise (srun --kill-on-bad-exit). One that dies before it has said that it is there would be waited for
// until launch.start_timeout; so those on its node look whether it lives, while the ranks meet.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "parallel/launch/rank_environment.h"
#include "parallel/launch/slurm/scope.h"
#include "parallel/launch/slurm/step_tasks.h"

namespace ftune {

class TaskWatch {
 public:
  // Of the step of `scope`, in which `environment` is this rank's. Where tasks of this node have ended, the
  // first that is left tells all ranks, in the name of the first that is not: JoinWorld fails on all of them.
  TaskWatch(const SlurmScope& scope, const RankEnvironment& environment);
  ~TaskWatch();
  TaskWatch(const TaskWatch&) = delete;
  TaskWatch& operator=(const TaskWatch&) = delete;

 private:
  void Watch(const StepDaemon& daemon);
  // False where it is over.
  bool Sleep();

  std::set<int> tasks_;  // of this node
  RankEnvironment environment_;
  std::mutex mutex_;
  std::condition_variable over_changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace ftune
