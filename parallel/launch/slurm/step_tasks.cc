#include "parallel/launch/slurm/step_tasks.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/strings.h"

namespace ftune {
namespace {

// The step of the title that Slurm's daemon of a step gives itself: "slurmstepd: [24.0]".
std::optional<std::string> StepOfTitle(const std::string& title) {
  constexpr std::string_view kStart = "slurmstepd: [";
  const size_t end = title.find(']');
  if (!title.starts_with(kStart) || end == std::string::npos) return std::nullopt;
  return title.substr(kStart.size(), end - kStart.size());
}

std::string TextOf(const std::string& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct ProcessStat {
  std::string state;
  pid_t parent = 0;  // also where there is no such process
};

ProcessStat StatOf(pid_t pid) {
  // PID (NAME) STATE PARENT …, where the name may have any characters.
  const std::string stat = TextOf(StrCat("/proc/", pid, "/stat"));
  std::istringstream rest(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
  ProcessStat found;
  rest >> found.state >> found.parent;
  return found;
}

std::optional<int> TaskOf(pid_t pid) {
  constexpr char kNumber[] = "SLURM_PROCID=";
  const std::vector<std::string> variables = absl::StrSplit(TextOf(StrCat("/proc/", pid, "/environ")), '\0');
  for (const std::string& variable : variables) {
    int task = 0;
    if (variable.starts_with(kNumber) && absl::SimpleAtoi(variable.substr(std::strlen(kNumber)), &task)) {
      return task;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<StepDaemon> EnclosingDaemon() {
  for (pid_t pid = getppid(); pid > 1; pid = StatOf(pid).parent) {
    if (std::optional<std::string> step = StepOfTitle(TextOf(StrCat("/proc/", pid, "/cmdline")))) {
      return StepDaemon{.pid = pid, .step = *std::move(step)};
    }
  }
  return std::nullopt;
}

std::optional<std::string> EnclosingStep() {
  const std::optional<StepDaemon> daemon = EnclosingDaemon();
  return daemon ? std::optional(daemon->step) : std::nullopt;
}

std::optional<std::set<int>> LiveTasks(const StepDaemon& daemon) {
  std::set<int> tasks;
  std::error_code gone;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator("/proc", gone)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    const ProcessStat stat = StatOf(pid);
    if (stat.parent != daemon.pid || stat.state == "Z") continue;
    const std::optional<int> task = TaskOf(pid);
    // It may have ended just now; whoever asks again is told.
    if (!task) return std::nullopt;
    tasks.insert(*task);
  }
  return tasks;
}

}  // namespace ftune
