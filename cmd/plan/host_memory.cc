#include "cmd/plan/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/strings.h"
#include "cmd/doctor/cgroup.h"

namespace ftune {

int64_t HostMemory() {
  const int64_t built_in = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return std::min(built_in, ReadCgroupLimits().memory.value_or(built_in));
}

int64_t AvailableMemory() { return std::min(HostMemory(), MemoryFact("MemAvailable")); }

int64_t MemoryFact(std::string_view name) {
  std::ifstream file("/proc/meminfo");
  const std::string wanted = StrCat(name, ":");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with(wanted))
      return std::strtoll(line.c_str() + wanted.size(), nullptr, 10) << 10;  // KiB
  }
  return 0;
}

}  // namespace ftune
