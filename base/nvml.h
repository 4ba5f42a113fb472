// How busy this host's GPUs are, by the driver's own library (NVML), which is looked for at run time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ftune {

struct GpuUse {
  int index = 0;
  std::string name;                   // "NVIDIA H200"
  std::optional<double> utilization;  // 0 to 1; none where the driver does not tell (under MIG)
  int64_t memory_used = 0, memory_total = 0;
};

class Nvml {
 public:
  // Null where there is no driver, or it cannot be asked.
  static std::unique_ptr<Nvml> Open();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Of all GPUs that this process may see. One that does not answer is left out. For one thread.
  std::vector<GpuUse> Look() const;

 private:
  struct Functions;
  explicit Nvml(std::unique_ptr<Functions> functions);

  std::unique_ptr<Functions> functions_;
};

}  // namespace ftune
