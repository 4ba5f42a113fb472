// What is known of a run in the text format of Prometheus, version 0.0.4.
#pragma once

#include <string>
#include <vector>

#include "base/nvml.h"
#include "cmd/watch/run_status.h"

namespace ftune {

inline constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";

// `now`: Unix seconds. What is not known has no sample.
std::string MetricsText(const RunStatus& status, const std::vector<GpuUse>& gpus, double now);

}  // namespace ftune
