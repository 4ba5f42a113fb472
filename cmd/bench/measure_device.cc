#include "cmd/bench/measure_device.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/bench/bench_ranks.h"
#include "cmd/bench/disk.h"
#include "cmd/bench/links.h"
#include "cmd/bench/op_rates.h"
#include "cmd/device/measured_device.h"
#include "cmd/plan/cpu_overhead.h"
#include "engine/backend/cpu/cpu_backend.h"
#include "parallel/launch/core_shares.h"

namespace ftune {

absl::StatusOr<DeviceModel> MeasureDevice(const MeasureOptions& options) {
  const int threads = options.threads;
  const int cores = static_cast<int>(AllowedCores().size());
  const int per_host = std::max(1, cores / threads);
  DeviceModel device = {.name = MeasuredName(threads),
                        .memory = options.host_memory / per_host,
                        .per_host = per_host,
                        .runtime = kCpuRuntime,
                        .is_cpu = true};
  // Ranks that exchange data are two at least. They come first: the libraries of products keep their threads.
  FTUNE_RETURN_IF_ERROR(RunOnRanks(std::max(2, per_host), [&](Communicator& ranks) -> absl::Status {
    FTUNE_ASSIGN_OR_RETURN(device.disk, MeasureDisk(ranks, options.folder));
    FTUNE_ASSIGN_OR_RETURN(device.in_host, MeasureCollectives(ranks));
    FTUNE_ASSIGN_OR_RETURN(device.network, MeasureLoopback(ranks));
    return absl::OkStatus();
  }));
  FTUNE_RETURN_IF_ERROR(RunOnRanks(per_host, [&](Communicator& ranks) -> absl::Status {
    CpuBackend backend({.threads = threads});
    FTUNE_ASSIGN_OR_RETURN(OpRates reached, MeasureOps(backend, ranks));
    device.products = std::move(reached.products);
    device.rates = reached.rates;
    return absl::OkStatus();
  }));
  for (const auto& [dtype, rates] : device.products) {
    for (const ProductRate& rate : rates) device.peak[dtype] = std::max(device.peak[dtype], rate.flops);
  }
  return device;
}

}  // namespace ftune
