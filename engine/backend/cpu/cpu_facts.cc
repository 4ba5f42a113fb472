#include "engine/backend/cpu/cpu_facts.h"

#include <oneapi/dnnl/dnnl.h>

#include "base/strings.h"
#include "engine/backend/cpu/targets.h"
#include "hwy/targets.h"

namespace ftune {

std::string KernelTarget() {
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(usable & -usable);  // the better a target, the lower its bit
}

std::string MatrixLibrary() {
  const dnnl_version_t& version = *dnnl_version();
  return StrCat("oneDNN ", version.major, ".", version.minor, ".", version.patch);
}

}  // namespace ftune
