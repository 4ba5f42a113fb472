#include "cmd/doctor/cgroup.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace ftune {
namespace {

namespace fs = std::filesystem;

constexpr char kMount[] = "/sys/fs/cgroup";
// The first version's way to say that there is no limit is a number that no machine has.
constexpr int64_t kNoLimit = int64_t{1} << 60;

// A group's folder and those of the groups above it, as far as they can be seen from here.
std::vector<fs::path> FoldersOf(const fs::path& mount, const std::string& group) {
  std::vector<fs::path> folders = {mount};
  fs::path folder = mount;
  for (const fs::path& part : fs::path(group).relative_path()) folders.push_back(folder /= part);
  return folders;
}

template <class T>
void Lower(std::optional<T>& limit, T value) {
  limit = std::min(limit.value_or(value), value);
}

void ReadUnified(const std::string& group, CgroupLimits& limits) {
  for (const fs::path& folder : FoldersOf(kMount, group)) {
    double quota = 0.0, period = 0.0;
    if (std::ifstream(folder / "cpu.max") >> quota >> period && period > 0)
      Lower(limits.cores, quota / period);
    int64_t bytes = 0;
    if (std::ifstream(folder / "memory.max") >> bytes) Lower(limits.memory, bytes);
  }
}

void ReadCpu(const std::string& group, CgroupLimits& limits) {
  for (const fs::path& folder : FoldersOf(fs::path(kMount) / "cpu", group)) {
    double quota = 0.0, period = 0.0;
    const bool known = std::ifstream(folder / "cpu.cfs_quota_us") >> quota &&
                       std::ifstream(folder / "cpu.cfs_period_us") >> period;
    if (known && quota > 0 && period > 0) Lower(limits.cores, quota / period);
  }
}

void ReadMemory(const std::string& group, CgroupLimits& limits) {
  for (const fs::path& folder : FoldersOf(fs::path(kMount) / "memory", group)) {
    int64_t bytes = 0;
    const bool known = static_cast<bool>(std::ifstream(folder / "memory.limit_in_bytes") >> bytes);
    if (known && bytes < kNoLimit) Lower(limits.memory, bytes);
  }
}

bool HasController(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == wanted) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

}  // namespace

CgroupLimits ReadCgroupLimits() {
  CgroupLimits limits;
  std::ifstream groups("/proc/self/cgroup");
  // "4:memory:/a/b"; of the second version "0::/a/b"
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) ReadUnified(group, limits);
    if (HasController(controllers, "cpu")) ReadCpu(group, limits);
    if (HasController(controllers, "memory")) ReadMemory(group, limits);
  }
  return limits;
}

}  // namespace ftune
