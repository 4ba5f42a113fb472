#include "cmd/plan/host_memory.h"

#include <unistd.h>

#include <algorithm>

#include "cmd/doctor/cgroup.h"

namespace ftune {

int64_t HostMemory() {
  const int64_t built_in = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return std::min(built_in, ReadCgroupLimits().memory.value_or(built_in));
}

}  // namespace ftune
