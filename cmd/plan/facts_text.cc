#include "cmd/plan/facts_text.h"

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "cmd/report/progress.h"

namespace ftune {
namespace {

// Without what is recomputed.
double FlopsPerToken(const PlanResult& plan) {
  return plan.needed_flops() / static_cast<double>(plan.used_tokens);
}

std::string DataLines(const DataFacts& data) {
  if (!data.why_not.empty()) return StrCat("data: not looked at: ", data.why_not, "\n");
  return absl::StrFormat(
      "data: an epoch is %d samples, %d tokens (%d trained) in %d packs, %.1f %% filled, in %d steps; the "
      "run has %d steps\n",
      data.samples, data.tokens, data.trained_tokens, data.packs, 100.0 * data.fill, *data.steps.epoch,
      data.steps.total);
}

std::string DiskLines(const DiskNeed& disk) {
  const SavedBytes& saved = disk.saved;
  std::string text =
      StrCat("a checkpoint is ", HumanBytes(saved.checkpoint), ", the result ", HumanBytes(saved.result));
  if (saved.states > 0) StrAppend(text, ", optimizer states on disk ", HumanBytes(saved.states));
  StrAppend(text, "; output_dir needs ", HumanBytes(disk.total()), " for at most ", disk.checkpoints,
            disk.checkpoints == 1 ? " checkpoint\n" : " checkpoints at once\n");
  if (!disk.fits()) {
    StrAppend(text, "warning: there are only ", HumanBytes(*disk.free),
              " free; a lower checkpoint.keep_last ", "keeps fewer\n");
  }
  return text;
}

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

std::string FactsText(const PlanResult& plan) {
  std::string text = absl::StrFormat(
      "%.3g of them a token, without what is recomputed: products, and attention by the pairs that the "
      "causal "
      "mask leaves; a multiply-add counts two\n",
      FlopsPerToken(plan));
  if (plan.data) StrAppend(text, DataLines(*plan.data));
  if (plan.disk) StrAppend(text, DiskLines(*plan.disk));
  return text;
}

void AddFacts(const PlanResult& plan, nlohmann::ordered_json& json) {
  json["flops_per_token"] = FlopsPerToken(plan);
  json["recomputed_flops"] = plan.mesh.recomputed_flops;
  if (plan.data) json["data"] = DataJson(*plan.data);
  if (plan.disk) json["disk"] = DiskJson(*plan.disk);
}

}  // namespace ftune
