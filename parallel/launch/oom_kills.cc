#include "parallel/launch/oom_kills.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <string_view>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/folder.h"
#include "base/strings.h"

namespace ftune {
namespace {

// Of this process: the first that is there.
std::string FindCounter() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::string file = OomCounterOf(line);
    if (!file.empty() && Exists(file)) return file;
  }
  return "";
}

}  // namespace

pid_t OomVictimOf(const std::string& line) {
  // "Out of memory: Killed process 123 (exe) …", "Memory cgroup out of memory: Killed process 123 (exe) …"
  constexpr std::string_view kKilled = "ut of memory: Killed process ";
  const size_t at = line.find(kKilled);
  pid_t pid = 0;
  if (at == std::string::npos) return pid;
  std::from_chars(line.data() + at + kKilled.size(), line.data() + line.size(), pid);
  return pid;
}

std::string OomCounterOf(const std::string& line) {
  const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
  if (parts.size() != 3) return "";
  if (parts[1].empty()) return StrCat("/sys/fs/cgroup", parts[2], "/memory.events");
  const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
  const bool memory = std::find(controllers.begin(), controllers.end(), "memory") != controllers.end();
  return memory ? StrCat("/sys/fs/cgroup/memory", parts[2], "/memory.oom_control") : "";
}

OomKills::OomKills() : log_(open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)), counter_(FindCounter()) {
  if (log_) lseek(log_.get(), 0, SEEK_END);
  counted_ = Count();
}

int64_t OomKills::Count() const {
  std::ifstream file(counter_);
  int64_t count = 0;
  for (std::string name; file >> name >> count;) {
    if (name == "oom_kill") return count;
  }
  return 0;
}

void OomKills::ReadLog() {
  char record[8192];  // the longest; each read has one
  while (log_) {
    const ssize_t size = read(log_.get(), record, sizeof(record));
    // EPIPE: records were written over before they were read; the next is there.
    if (size < 0 && (errno == EPIPE || errno == EINTR)) continue;
    if (size <= 0) return;
    if (const pid_t pid = OomVictimOf(std::string(record, static_cast<size_t>(size))); pid > 0) {
      logged_.insert(pid);
    }
  }
}

bool OomKills::Killed(pid_t pid) {
  ReadLog();
  const bool counted = Count() > counted_;
  if (counted) ++counted_;
  return logged_.erase(pid) > 0 || counted;
}

}  // namespace ftune
