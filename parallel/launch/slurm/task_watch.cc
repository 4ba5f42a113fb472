#include "parallel/launch/slurm/task_watch.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/quiet_thread.h"
#include "base/strings.h"
#include "parallel/launch/host_identity.h"
#include "parallel/launch/join_world.h"

namespace ftune {
namespace {

constexpr absl::Duration kLookEvery = absl::Seconds(1);

}  // namespace

TaskWatch::TaskWatch(const SlurmScope& scope, const RankEnvironment& environment)
    : tasks_(scope.tasks_here.begin(), scope.tasks_here.end()), environment_(environment) {
  const std::optional<StepDaemon> daemon = EnclosingDaemon();
  if (!daemon || tasks_.size() < 2) return;
  thread_ = QuietThread([this, daemon = *daemon] { Watch(daemon); });
}

TaskWatch::~TaskWatch() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  over_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool TaskWatch::Sleep() {
  std::unique_lock lock(mutex_);
  return !over_changed_.wait_for(lock, absl::ToChronoMilliseconds(kLookEvery), [this] { return over_; });
}

void TaskWatch::Watch(const StepDaemon& daemon) {
  while (Sleep()) {
    const std::optional<std::set<int>> live = LiveTasks(daemon);
    if (!live || live->empty() || *live->begin() != environment_.rank) continue;
    std::set<int> gone;
    std::set_difference(tasks_.begin(), tasks_.end(), live->begin(), live->end(),
                        std::inserter(gone, gone.end()));
    if (gone.empty()) continue;
    RankEnvironment first = environment_;
    first.rank = *gone.begin();
    return TellOthers(first, absl::AbortedError(StrCat("its process on ", HostName(), " has ended")), [] {});
  }
}

}  // namespace ftune
