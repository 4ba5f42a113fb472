// When a process was started: with its number that names it, as numbers are given out again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace ftune {

// In ticks of the system's clock since it was booted; nothing where there is no such process, or it has ended
// and only waits to be collected.
std::optional<int64_t> ProcessStart(pid_t pid);

}  // namespace ftune
