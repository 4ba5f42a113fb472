#include "cmd/plan/plan_json.h"

#include <utility>

#include "cmd/report/run_log.h"

namespace ftune {

namespace {

nlohmann::ordered_json DataJson(const DataFacts& data) {
  if (!data.why_not.empty()) return {{"not_looked_at", data.why_not}};
  return {{"samples", data.samples},
          {"tokens", data.tokens},
          {"trained_tokens", data.trained_tokens},
          {"packs", data.packs},
          {"fill", data.fill},
          {"steps_per_epoch", *data.steps.epoch},
          {"total_steps", data.steps.total}};
}

nlohmann::ordered_json DiskJson(const DiskNeed& disk) {
  nlohmann::ordered_json json = {
      {"checkpoint", disk.saved.checkpoint}, {"checkpoints", disk.checkpoints}, {"result", disk.saved.result},
      {"states", disk.saved.states},         {"needed", disk.total()},          {"fits", disk.fits()}};
  if (disk.free) json["free"] = *disk.free;
  return json;
}

}  // namespace

nlohmann::ordered_json PlanJson(const PlanResult& plan) {
  nlohmann::ordered_json roles = nlohmann::ordered_json::array();
  for (const RankRole& role : plan.mesh.roles) {
    roles.push_back({{"role", role.name},
                     {"ranks", role.ranks},
                     {"memory", ToJson(role.dry.peak)},
                     {"peak", role.dry.peak.total()},
                     {"moment", role.dry.moment},
                     {"ready", ToJson(role.dry.ready)},
                     {"step", ToJson(role.dry.step)},
                     {"step_after_save", ToJson(role.dry.saved_step)},
                     {"capacity", plan.capacity},
                     {"fits", plan.Fits(role)}});
  }
  nlohmann::ordered_json json = {{"roles", std::move(roles)},
                                 {"fits", plan.fits()},
                                 {"parameters", plan.mesh.parameters},
                                 {"trainable_parameters", plan.mesh.trainable},
                                 {"step_flops", plan.mesh.useful_flops + plan.mesh.recomputed_flops}};
  if (plan.data) json["data"] = DataJson(*plan.data);
  if (plan.disk) json["disk"] = DiskJson(*plan.disk);
  return json;
}

}  // namespace ftune
