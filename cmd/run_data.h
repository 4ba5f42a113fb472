// The data of a recipe: tokenizer, chat template, samples for training and evaluation.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/scratch_folder.h"
#include "cmd/prepared_data.h"
#include "cmd/recipe/load.h"
#include "cmd/run_options.h"
#include "data/audit/audit_report.h"
#include "data/loader/data_plan.h"
#include "data/source/dataset.h"
#include "data/template/chat_template.h"
#include "data/tokenizer/tokenizer.h"
#include "engine/format/added_tokens.h"
#include "engine/format/hf_model.h"
#include "engine/model/config.h"

namespace ftune {

struct RunData {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;  // null where the tokenizer has none and none is named
  // The text of a template that goes with the result: one that the tokenizer's files do not have. Else empty.
  std::string own_template;
  std::shared_ptr<const Dataset> train;       // null with data.streaming
  std::shared_ptr<const Dataset> evaluation;  // null where there is none
  PreparedStore train_store;
  PreparedStore evaluation_store;  // of data.eval; a part of the training data is in that store
  // What training and evaluation data were made from, in this order.
  std::vector<HashedFile> train_files, evaluation_files;
  std::vector<std::string> notes;  // what a user should be told
  std::vector<int32_t> stop_ids;   // where generation ends
  int64_t vocab_size = 0;          // of the model, with added tokens
  // With model.added_tokens: those that are new, and where the tokenizer's files with them are.
  std::optional<AddedTokens> added;
  std::optional<ScratchFolder> tokenizer_folder;
  std::filesystem::path tokenizer_path;  // where the tokenizer was read from

  // The rows of training and evaluation that were dropped or cut; each once, whichever side it would be on.
  absl::Status VisitDropped(const DroppedVisitor& visit) const;
  AuditReport Audit() const;  // of the training data
  // What a rank of the mesh's data axis gets.
  absl::StatusOr<DataPlan> TrainPlan(const Recipe& recipe, int data_rank = 0) const;
  absl::StatusOr<DataPlan> EvaluationPlan(const Recipe& recipe,
                                          int data_rank = 0) const;  // evaluation is not null
};

// From prepared data, or prepared now; streamed data is left alone. Datasets of the hub are looked up, and
// downloaded if need be. data.sequence_len is capped here by what the model was made for. Ids beyond the
// model's vocabulary are an error. `most_bytes` as PrepareOptions has it.
absl::StatusOr<RunData> LoadRunData(LoadedRecipe& loaded, const ModelPlan& plan, const HubReporter& reporter,
                                    Progress& progress, std::optional<int64_t> most_bytes = std::nullopt);

// The part of that which needs no data: the tokenizer, the chat template, stop tokens, added tokens. `files`
// are those of plan.model_path; where the tokenizer is elsewhere, they learn it. → the template's text, for
// DescribeSource.
absl::StatusOr<std::string> LoadTokenizerOf(const LoadedRecipe& loaded, const ModelPlan& plan,
                                            ModelFiles& files, RunData& data);
// Makes the model grow by them. The data keeps the tokenizer's folder that the options then name.
void TakeAddedTokens(const RunData& data, LoadModelOptions& options);

// What samples are made with, for the key of prepared data. `template_text`: of the chat template, with the
// variables that are set in it; empty where there is none.
absl::StatusOr<SampleSource> DescribeSource(const std::filesystem::path& tokenizer,
                                            const std::string& template_text, const SampleOptions& options);

// Each row that was dropped or cut, as a line of JSON in `path`.
absl::Status WriteDropped(const RunData& data, const std::filesystem::path& path);

// An error where a token id lies beyond the model's vocabulary.
absl::Status CheckIds(const DataReport& report, int64_t vocab_size, const std::string& model);

// "240 rows, 9,876 tokens, 4,321 trained (43.7 %), 3 dropped (3 too_long)".
std::string DescribeDataset(const Dataset& dataset);

}  // namespace ftune
