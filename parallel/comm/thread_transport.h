// Ranks that are threads of one process: for tests, and for `ftune verify`.
#pragma once

#include <memory>
#include <vector>

#include "parallel/comm/transport.h"

namespace ftune {

// One transport a rank; each is then used by that rank's thread.
std::vector<std::unique_ptr<Transport>> MakeThreadTransports(int ranks);

}  // namespace ftune
