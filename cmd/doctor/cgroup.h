// What the control groups that this process is in leave it.
#pragma once

#include <cstdint>
#include <optional>

namespace ftune {

struct CgroupLimits {
  std::optional<double> cores;    // of time, whatever cores it may run on; none: no limit
  std::optional<int64_t> memory;  // bytes
};

// The least of all groups above this process, of either version of the kernel's interface; what cannot be
// read limits nothing.
CgroupLimits ReadCgroupLimits();

}  // namespace ftune
