// The time of day, as logs and files have it.
#pragma once

#include <chrono>

namespace ftune {

// Seconds since 1970.
inline double UnixNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace ftune
