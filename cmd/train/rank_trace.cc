#include "cmd/train/rank_trace.h"

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/strings.h"
#include "parallel/comm/gather_text.h"

namespace ftune {

void ShowCalls(Timeline& timeline, Communicator& group) {
  group.set_observer([&timeline](const CommSpan& span) {
    if (!timeline.recording()) return;
    // A wait for calls that were started is no call: it stands in no lane but that of waits.
    const bool is_call = span.call.elements > 0 || span.call.kind != CallKind::kBarrier;
    const std::string name = is_call ? span.call.Describe() : std::string("wait");
    if (is_call) timeline.Add({kCommunicationLane, name, span.begin, span.end});
    if (span.exposed) timeline.Add({kWaitLane, name, span.begin, span.end});
  });
}

absl::Status WriteTrace(const TraceReport& report, Communicator& world, const std::filesystem::path& path) {
  const std::string name = StrCat("rank ", world.rank());
  const std::string own = TraceEvents(report.spans, world.rank(), name, report.start).dump();
  FTUNE_ASSIGN_OR_RETURN(const std::vector<std::string> all, GatherText(world, own));
  if (world.rank() != 0) return absl::OkStatus();
  nlohmann::json events = nlohmann::json::array();
  for (const std::string& text : all) {
    for (nlohmann::json& event : nlohmann::json::parse(text)) events.push_back(std::move(event));
  }
  return WriteFileAtomic(path, nlohmann::json({{"traceEvents", std::move(events)}}).dump());
}

}  // namespace ftune
