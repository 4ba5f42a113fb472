// Whether ranks are on one host, so that they can share memory.
#pragma once

#include <string>

namespace ftune {

// Equal for processes that run under one kernel and reach each other's abstract sockets: the boot, the
// network namespace and the host's name. What cannot be read is left out.
std::string HostIdentity();

// As the host calls itself.
std::string HostName();

}  // namespace ftune
