// Where this user's host keeps what can be made again.
#pragma once

#include <filesystem>

#include "base/environment.h"

namespace ftune {

// ~/.cache/ftune, or where XDG_CACHE_HOME says; empty where neither is known.
std::filesystem::path CacheFolder(const EnvironmentReader& environment);

}  // namespace ftune
