#include "cmd/train/rank_trace.h"

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/strings.h"
#include "parallel/comm/gather_text.h"

namespace ftune {

void CallTimeline::OnEnd(const CommSpan& span) {
  if (!timeline_.recording()) return;
  const std::string name = span.is_wait ? std::string("wait") : span.call.Describe();
  // A wait for calls that were started is no call: it stands in no lane but that of waits.
  if (!span.is_wait) timeline_.Add({kCommunicationLane, name, span.begin, span.end});
  if (span.exposed) timeline_.Add({kWaitLane, name, span.begin, span.end});
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
