// What is looked at on a host, this one.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "cmd/doctor/check.h"

namespace ftune {

struct HostCheckOptions {
  std::string folder = ".";  // of a run's output; need not be there yet
  // What a recipe needs; of others it is said whether they are there.
  bool needs_network = false;  // downloads
  bool needs_tls = false;      // launch.tls
  bool needs_metrics = false;  // log.metrics_port
  bool needs_arrow = false;    // Parquet and Arrow files
  bool needs_ssh = false;
  bool needs_slurm = false;
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostCheckOptions, folder, needs_network, needs_tls, needs_metrics,
                                   needs_arrow, needs_ssh, needs_slurm)

// Takes a few seconds: some things are measured, with all cores.
Checks CheckHost(const HostCheckOptions& options);

// Its parts.
Check CheckProgram();
Check CheckSystem();
Check CheckClock();
Check CheckCpu();
Check CheckKernels();
Check CheckMemory();
Check CheckSharedMemory();
Check CheckLimits();
Check CheckDisk(const std::filesystem::path& folder);
Check MeasureMemory();
Check MeasureProducts();
Check CheckGloo();
Check CheckNetworkLibrary(bool needed);
Check CheckTls(bool needed);
Check CheckMetrics(bool needed);
Check CheckArrow(bool needed);
Check CheckGpu();
Check CheckSsh(bool needed);
Check CheckSlurm(bool needed);

}  // namespace ftune
