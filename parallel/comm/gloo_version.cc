#include "parallel/comm/gloo_version.h"

#include <gloo/config.h>

#include "base/strings.h"

namespace ftune {

std::string GlooVersion() {
  return StrCat("gloo ", GLOO_VERSION_MAJOR, ".", GLOO_VERSION_MINOR, ".", GLOO_VERSION_PATCH);
}

}  // namespace ftune
