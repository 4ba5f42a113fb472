// The memory that this host has for ranks.
#pragma once

#include <cstdint>

namespace ftune {

// Bytes: what is built in, or what the control groups that this process is in leave it.
int64_t HostMemory();

}  // namespace ftune
