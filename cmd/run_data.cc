#include "cmd/run_data.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/hub/resolve.h"
#include "cmd/prompt.h"
#include "cmd/run_options.h"
#include "data/template/load_chat_template.h"
#include "engine/format/hf_model.h"

namespace ftune {
namespace {

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChooseTemplate(const Recipe& recipe,
                                                             const Tokenizer& tokenizer) {
  if (!recipe.data.chat_template && tokenizer.chat_template().empty()) return nullptr;
  return LoadChatTemplate(recipe.data.chat_template.value_or("auto"), tokenizer, recipe.model.path);
}

}  // namespace

absl::Status CheckIds(const Dataset& dataset, const ModelConfig& config, const std::string& model) {
  for (int64_t i = 0; i < dataset.size(); ++i) {
    for (const StoredToken token : dataset.sample(i)) {
      const int32_t id = token.id();
      if (id < config.vocab_size) continue;
      return DataError({.file = model,
                        .message = "the data has a token that the model has no embedding for",
                        .found = StrCat("token id ", id),
                        .expected = StrCat("ids below ", config.vocab_size, ", the model's vocab_size"),
                        .hint = "the tokenizer does not belong to this model"});
    }
  }
  return absl::OkStatus();
}

AuditReport RunData::Audit() const { return {train->report.audit, stop_ids, *tokenizer}; }

absl::StatusOr<DataPlan> RunData::TrainPlan(const Recipe& recipe) const {
  return DataPlan::Create(train, ToPlanOptions(recipe));
}

absl::StatusOr<DataPlan> RunData::EvaluationPlan(const Recipe& recipe) const {
  return DataPlan::CreateForEvaluation(evaluation, ToPlanOptions(recipe));
}

absl::StatusOr<RunData> LoadRunData(LoadedRecipe& loaded, const ModelPlan& plan,
                                    const HubReporter& reporter) {
  FTUNE_RETURN_IF_ERROR(ResolveDatasetsOf(loaded, reporter));
  Recipe& recipe = loaded.recipe;
  FTUNE_ASSIGN_OR_RETURN(ModelFiles files, OpenModel(plan.model_path));
  if (plan.tokenizer != files.path) files.tokenizer_folder = plan.tokenizer;
  int64_t context = files.config.LongestText();
  if (recipe.model.rope_scaling) {
    FTUNE_ASSIGN_OR_RETURN(const ModelContext scaled, ScaledContext(loaded, files.config));
    context = scaled.max_position;
  }
  RunData data;
  if (recipe.data.sequence_len > context) {
    data.notes.push_back(StrCat("data.sequence_len is capped to ", context, ", the model's context"));
    recipe.data.sequence_len = context;
  }
  ModelConfig config = files.config;
  std::filesystem::path tokenizer = plan.tokenizer;
  if (!recipe.model.added_tokens.empty()) {
    FTUNE_ASSIGN_OR_RETURN(ScratchFolder folder, ScratchFolder::Create());
    FTUNE_ASSIGN_OR_RETURN(data.added,
                           WriteExtendedTokenizer(files, recipe.model.added_tokens, folder.path()));
    tokenizer = folder.path();
    data.tokenizer_folder.emplace(std::move(folder));
    config.vocab_size = std::max(config.vocab_size, data.added->rows());
    data.notes.push_back(StrCat("added tokens: ", data.added->ids.size(), " of ",
                                recipe.model.added_tokens.size(), " are new; the model has ",
                                config.vocab_size, " rows for tokens"));
  }
  FTUNE_ASSIGN_OR_RETURN(data.tokenizer, LoadTokenizer(tokenizer));
  FTUNE_ASSIGN_OR_RETURN(data.chat_template, ChooseTemplate(recipe, *data.tokenizer));
  data.stop_ids = StopIds(config, *data.tokenizer);
  const SampleOptions options = ToSampleOptions(recipe.data);
  const auto load = [&](const std::vector<DataSource>& sources) {
    return LoadDataset(ToEntries(sources), *data.tokenizer, data.chat_template.get(), options);
  };
  FTUNE_ASSIGN_OR_RETURN(Dataset rows, load(recipe.data.train));
  if (!recipe.data.eval.empty()) {
    FTUNE_ASSIGN_OR_RETURN(Dataset evaluation, load(recipe.data.eval));
    data.evaluation = std::make_shared<Dataset>(std::move(evaluation));
  } else if (!recipe.data.val_set_size.empty()) {
    const CountOrShare& size = recipe.data.val_set_size;
    FTUNE_ASSIGN_OR_RETURN(
        TrainAndEvaluation split,
        SplitDataset(std::move(rows), size.count > 0 ? static_cast<double>(size.count) : size.share,
                     static_cast<uint64_t>(recipe.train.seed)));
    rows = std::move(split.train);
    data.evaluation = std::make_shared<Dataset>(std::move(split.evaluation));
  }
  data.train = std::make_shared<Dataset>(std::move(rows));
  FTUNE_RETURN_IF_ERROR(CheckIds(*data.train, config, recipe.model.path));
  if (data.evaluation) FTUNE_RETURN_IF_ERROR(CheckIds(*data.evaluation, config, recipe.model.path));
  return data;
}

std::string DescribeDataset(const Dataset& dataset) {
  const double share =
      100.0 * static_cast<double>(dataset.trained_tokens()) / static_cast<double>(dataset.tokens());
  std::string text = absl::StrFormat("%d samples, %d tokens, %d trained (%.1f %%)", dataset.size(),
                                     dataset.tokens(), dataset.trained_tokens(), share);
  std::map<std::string, int64_t> dropped;
  for (const DroppedRow& row : dataset.report.dropped) ++dropped[std::string(DropReasonName(row.reason))];
  for (const auto& [reason, count] : dropped) StrAppend(text, ", ", count, " dropped (", reason, ")");
  const auto mention = [&](int64_t count, std::string_view what) {
    if (count > 0) StrAppend(text, ", ", count, " ", what);
  };
  mention(dataset.report.truncated_rows, "truncated");
  mention(dataset.report.split_rows, "split");
  mention(dataset.report.audit.bos_samples[2], "with a doubled BOS");
  return text;
}

}  // namespace ftune
