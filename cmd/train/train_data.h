// The data of a training run, as one rank sees it: what it trains on and is evaluated with, step by step.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/status/status.h"
#include "cmd/audit.h"
#include "cmd/prompt.h"
#include "cmd/recipe/load.h"
#include "cmd/report/progress.h"
#include "cmd/run_data.h"
#include "cmd/run_options.h"
#include "cmd/streamed_data.h"
#include "data/loader/batch_source.h"
#include "data/loader/data_plan.h"

namespace ftune {

class TrainData {
 public:
  // Both outlive it. `data_rank` is this rank's place on the mesh's data axis.
  TrainData(LoadedRecipe& loaded, Progress& progress, int data_rank)
      : loaded_(loaded), progress_(progress), data_rank_(data_rank) {}

  // Loads and plans, and says so.
  absl::Status Prepare(const ModelPlan& model_plan, const HubReporter& hub);

  const RunData& run() const { return data_; }
  StreamedData* stream() { return stream_.get(); }  // null without data.streaming
  const RunLength& steps() const { return steps_; }
  const DataPlan* evaluation() const { return evaluation_ ? &*evaluation_ : nullptr; }
  PromptSampler& sampler() { return *sampler_; }

  // What is known before the first step, of the first epoch; nothing of streamed data.
  nlohmann::ordered_json Facts() const;

  // The batches from the first on; they refer to this. Streamed data is audited when the window of the first
  // batch was read, into `audit` where it is not empty.
  std::unique_ptr<BatchSource> MakeBatches(const std::filesystem::path& audit);

 private:
  const Recipe& recipe() const { return loaded_.recipe; }
  absl::Status PlanSteps();
  void PlanStream();
  absl::Status SayAudit(const DataAudit& audit);

  LoadedRecipe& loaded_;
  Progress& progress_;
  int data_rank_;
  RunData data_;
  std::unique_ptr<StreamedData> stream_;  // with data.streaming; otherwise there is a plan
  std::optional<DataPlan> plan_;
  RunLength steps_;
  std::optional<DataPlan> evaluation_;
  std::optional<PromptSampler> sampler_;
};

}  // namespace ftune
