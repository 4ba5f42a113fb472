// The timeline of a step on all ranks, as a file for Chrome's trace viewer.
#pragma once

#include <filesystem>

#include "absl/status/status.h"
#include "base/timeline.h"
#include "engine/train/reports.h"
#include "parallel/comm/communicator.h"

namespace ftune {

// Has `timeline`, which outlives it, show what groups do.
class CallTimeline final : public CallObserver {
 public:
  explicit CallTimeline(Timeline& timeline) : timeline_(timeline) {}
  void OnEnd(const CommSpan& span) override;

 private:
  Timeline& timeline_;
};

// Called by all ranks of the world, the first of which writes the file.
absl::Status WriteTrace(const TraceReport& report, Communicator& world, const std::filesystem::path& path);

}  // namespace ftune
