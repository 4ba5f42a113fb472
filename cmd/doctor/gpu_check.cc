// GPUs, by NVIDIA's management library where there is a driver.

#include <memory>
#include <string>

#include "base/nvml.h"
#include "base/strings.h"
#include "cmd/doctor/host_checks.h"
#include "cmd/report/progress.h"

namespace ftune {

Check CheckGpu() {
  std::string gpus;
  if (const std::unique_ptr<Nvml> nvml = Nvml::Open()) {
    for (const GpuUse& gpu : nvml->Look()) {
      StrAppend(gpus, gpus.empty() ? "" : ", ", gpu.name, " (", HumanBytes(gpu.memory_total), ", ",
                HumanBytes(gpu.memory_total - gpu.memory_used), " free)");
    }
  }
  return {.name = "gpu",
          .detail = StrCat(gpus.empty() ? "no GPU, or no NVIDIA driver" : gpus,
                           "; this version of ftune computes on the CPU")};
}

}  // namespace ftune
