// The memory that this host has for ranks.
#pragma once

#include <cstdint>
#include <string_view>

namespace ftune {

// Bytes: what is built in, or what the control groups that this process is in leave it.
int64_t HostMemory();
// Of that, what others leave at the moment.
int64_t AvailableMemory();
// Bytes, by its name in /proc/meminfo; 0 where that has none of this name.
int64_t MemoryFact(std::string_view name);

}  // namespace ftune
