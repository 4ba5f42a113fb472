#include "base/cache_folder.h"

#include <optional>
#include <string>

namespace ftune {

std::filesystem::path CacheFolder(const EnvironmentReader& environment) {
  const std::optional<std::string> cache = environment("XDG_CACHE_HOME");
  // Its specification has relative paths ignored.
  if (cache && cache->starts_with('/')) return std::filesystem::path(*cache) / "ftune";
  const std::optional<std::string> home = environment("HOME");
  return home ? std::filesystem::path(*home) / ".cache" / "ftune" : std::filesystem::path();
}

}  // namespace ftune
