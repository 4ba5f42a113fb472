#include "base/nvml.h"

#include <dlfcn.h>

#include <utility>

namespace ftune {
namespace {

// As in nvml.h of the CUDA toolkit, which is not needed to build ftune.
using Device = struct nvmlDevice_st*;
struct Utilization {
  unsigned int gpu, memory;  // per cent
};
struct Memory {
  unsigned long long total, free, used;
};
constexpr int kSuccess = 0;
constexpr unsigned int kLongestName = 96;

template <class Function>
bool Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

struct Nvml::Functions {
  int (*init)();
  int (*shutdown)();
  int (*count)(unsigned int*);
  int (*device)(unsigned int, Device*);
  int (*name)(Device, char*, unsigned int);
  int (*utilization)(Device, Utilization*);
  int (*memory)(Device, Memory*);
};

std::unique_ptr<Nvml> Nvml::Open() {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto functions = std::make_unique<Functions>();
  const bool found = Find(library, "nvmlInit_v2", functions->init) &&
                     Find(library, "nvmlShutdown", functions->shutdown) &&
                     Find(library, "nvmlDeviceGetCount_v2", functions->count) &&
                     Find(library, "nvmlDeviceGetHandleByIndex_v2", functions->device) &&
                     Find(library, "nvmlDeviceGetName", functions->name) &&
                     Find(library, "nvmlDeviceGetUtilizationRates", functions->utilization) &&
                     Find(library, "nvmlDeviceGetMemoryInfo", functions->memory);
  if (!found || functions->init() != kSuccess) return nullptr;
  return std::unique_ptr<Nvml>(new Nvml(std::move(functions)));
}

Nvml::Nvml(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {}

Nvml::~Nvml() { functions_->shutdown(); }

std::vector<GpuUse> Nvml::Look() const {
  std::vector<GpuUse> gpus;
  unsigned int count = 0;
  if (functions_->count(&count) != kSuccess) return gpus;
  for (unsigned int index = 0; index < count; ++index) {
    Device device = nullptr;
    Memory memory = {};
    if (functions_->device(index, &device) != kSuccess) continue;
    if (functions_->memory(device, &memory) != kSuccess) continue;
    GpuUse& gpu = gpus.emplace_back();
    gpu.index = static_cast<int>(index);
    gpu.memory_used = static_cast<int64_t>(memory.used);
    gpu.memory_total = static_cast<int64_t>(memory.total);
    char name[kLongestName] = "";
    if (functions_->name(device, name, sizeof(name)) == kSuccess) gpu.name = name;
    Utilization utilization = {};
    if (functions_->utilization(device, &utilization) == kSuccess) {
      gpu.utilization = static_cast<double>(utilization.gpu) / 100.0;
    }
  }
  return gpus;
}

}  // namespace ftune
