#include "cmd/doctor/host_checks.h"

namespace ftune {

Checks CheckHost(const HostCheckOptions& options) {
  return {CheckProgram(),
          CheckSystem(),
          CheckClock(),
          CheckCpu(),
          CheckKernels(),
          CheckMemory(),
          CheckSharedMemory(),
          CheckLimits(),
          CheckDisk(options.folder),
          MeasureMemory(),
          MeasureProducts(),
          CheckGpu(),
          CheckGloo(),
          CheckNetworkLibrary(options.needs_network),
          CheckTls(options.needs_tls),
          CheckMetrics(options.needs_metrics),
          CheckArrow(options.needs_arrow),
          CheckSsh(options.needs_ssh),
          CheckSlurm(options.needs_slurm)};
}

}  // namespace ftune
