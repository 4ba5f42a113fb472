#include "cmd/train/train_data.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/train/train_checks.h"
#include "data/loader/checked_batches.h"
#include "data/loader/planned_batches.h"

namespace ftune {

absl::Status TrainData::Prepare(const ModelPlan& model_plan, const HubReporter& hub) {
  FTUNE_ASSIGN_OR_RETURN(data_, LoadRunData(loaded_, model_plan, hub, progress_));
  for (const std::string& note : data_.notes) progress_.Say(note);
  for (const PreparedStore* store : {&data_.train_store, &data_.evaluation_store}) {
    if (!store->path.empty()) progress_.Say(DescribeStore(*store));
  }
  if (recipe().data.streaming) {
    PlanStream();
  } else {
    FTUNE_RETURN_IF_ERROR(PlanSteps());
  }
  if (data_.evaluation) {
    FTUNE_ASSIGN_OR_RETURN(DataPlan evaluation, data_.EvaluationPlan(recipe(), data_rank_));
    evaluation_.emplace(std::move(evaluation));
    progress_.Say(StrCat("evaluation: ", DescribeDataset(*data_.evaluation)));
  }
  FTUNE_ASSIGN_OR_RETURN(
      PromptSampler sampler,
      PromptSampler::Create(recipe().train.sample_prompts, recipe().train.sample_max_new_tokens,
                            recipe().data.sequence_len, *data_.tokenizer, data_.chat_template.get()));
  sampler_.emplace(std::move(sampler));
  return absl::OkStatus();
}

void TrainData::PlanStream() {
  stream_ = std::make_unique<StreamedData>(recipe(), data_,
                                           [this](const std::string& text) { progress_.Say(text); });
  steps_.total = *recipe().train.max_steps;
  progress_.Say(
      absl::StrFormat("data: streamed, so its samples, tokens and epochs are not known beforehand\n"
                      "plan: %d steps of up to %d × %d tokens",
                      steps_.total, *recipe().train.global_batch_size, recipe().data.sequence_len));
}

absl::Status TrainData::PlanSteps() {
  progress_.Say(StrCat("data: ", DescribeDataset(*data_.train)));
  FTUNE_RETURN_IF_ERROR(SayAudit(AuditOf(data_)));
  FTUNE_ASSIGN_OR_RETURN(DataPlan plan, data_.TrainPlan(recipe(), data_rank_));
  FTUNE_RETURN_IF_ERROR(CheckAllRanksTrain(loaded_, plan));
  plan_.emplace(std::move(plan));
  const DataPlan::Epoch& epoch = plan_->epochs().front();
  steps_ = {plan_->total_steps(), epoch.steps};
  progress_.Say(absl::StrFormat(
      "plan: %d steps of up to %d × %d tokens; an epoch is %d samples, %d tokens (%d trained) in %d packs, "
      "%.1f %% filled, in %d steps",
      steps_.total, *recipe().train.global_batch_size, recipe().data.sequence_len, epoch.samples,
      epoch.tokens, epoch.trained_tokens, epoch.packs, 100.0 * epoch.fill(), epoch.steps));
  if (plan_->used_up()) {
    progress_.Say(StrCat("plan: all data is used up after epoch ", plan_->epochs().size(),
                         ", by the epochs of its entries"));
  }
  return absl::OkStatus();
}

absl::Status TrainData::SayAudit(const DataAudit& audit) {
  for (const std::string& line : AuditLines(audit)) progress_.Say(line);
  return CheckAudit(audit, recipe().data.audit);
}

std::unique_ptr<BatchSource> TrainData::MakeBatches(const std::filesystem::path& audit) {
  if (!stream_) return std::make_unique<PlannedBatches>(*plan_);
  const auto write = [this, audit]() -> absl::Status {
    const DataAudit first = stream_->Audit();
    FTUNE_RETURN_IF_ERROR(SayAudit(first));
    return audit.empty() ? absl::OkStatus() : WriteAudit(first, audit);
  };
  return std::make_unique<CheckedBatches>(
      std::make_unique<StreamedBatches>(stream_->input(), ToStreamOptions(recipe(), data_rank_)), write);
}

nlohmann::ordered_json TrainData::Facts() const {
  if (!plan_) return nlohmann::ordered_json::object();
  const DataPlan::Epoch& epoch = plan_->epochs().front();
  return {{"samples", epoch.samples}, {"tokens", epoch.tokens}, {"trained_tokens", epoch.trained_tokens},
          {"packs", epoch.packs},     {"fill", epoch.fill()},   {"steps_per_epoch", epoch.steps}};
}

}  // namespace ftune
