#include "cmd/plan/plan_trace.h"

#include <utility>

#include "base/timeline.h"
#include "cmd/report/run_log.h"

namespace ftune {

nlohmann::json PlanTrace(const PlanResult& plan) {
  nlohmann::json events = nlohmann::json::array();
  int pid = 0;
  for (const RankRole& role : plan.mesh.roles) {
    for (nlohmann::json& event : TraceEvents(role.dry.trace.spans, pid, role.name, 0.0)) {
      events.push_back(std::move(event));
    }
    for (const MemorySample& sample : role.dry.trace.memory) {
      events.push_back({{"ph", "C"},
                        {"name", "memory"},
                        {"pid", pid},
                        {"ts", sample.seconds * 1e6},
                        {"args", ToJson(sample.use)}});
    }
    ++pid;
  }
  return {{"traceEvents", std::move(events)}};
}

}  // namespace ftune
