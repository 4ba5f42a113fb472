#include "cmd/plan/plan_json.h"

#include <utility>

#include "cmd/plan/facts_text.h"
#include "cmd/plan/time_text.h"
#include "cmd/report/run_log.h"

namespace ftune {

nlohmann::ordered_json PlanJson(const PlanResult& plan) {
  nlohmann::ordered_json roles = nlohmann::ordered_json::array();
  for (const RankRole& role : plan.mesh.roles) {
    roles.push_back({{"role", role.name},
                     {"ranks", role.ranks},
                     {"memory", ToJson(role.dry.peak)},
                     {"peak", role.dry.peak.total()},
                     {"moment", role.dry.moment},
                     {"runtime", plan.Runtime()},
                     {"fragmentation", plan.Fragmentation(role)},
                     {"needs", plan.Needs(role)},
                     {"ready", ToJson(role.dry.ready)},
                     {"step", ToJson(role.dry.step)},
                     {"step_after_save", ToJson(role.dry.saved_step)},
                     {"host_memory", role.dry.host_bytes},
                     {"capacity", plan.capacity},
                     {"fits", plan.Fits(role)}});
  }
  nlohmann::ordered_json json = {{"roles", std::move(roles)},
                                 {"fits", plan.fits()},
                                 {"parameters", plan.mesh.parameters},
                                 {"trainable_parameters", plan.mesh.trainable},
                                 {"step_flops", plan.mesh.useful_flops + plan.mesh.recomputed_flops}};
  if (plan.target) {
    json["on"] = {{"hosts", plan.target->hosts},
                  {"per_host", plan.target->per_host},
                  {"device", plan.target->device.name}};
  }
  AddFacts(plan, json);
  AddTime(plan, json);
  return json;
}

}  // namespace ftune
