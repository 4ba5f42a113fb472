#include "cmd/run_data.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "cmd/hub/resolve.h"
#include "cmd/prompt.h"
#include "cmd/run_options.h"
#include "data/source/split_dataset.h"
#include "data/template/load_chat_template.h"
#include "engine/format/hf_model.h"

namespace ftune {
namespace {

// Sets data.chat_template, and gives its text with the variables that are set in it; empty where there is
// none.
absl::StatusOr<std::string> ChooseTemplate(const LoadedRecipe& loaded, RunData& data) {
  const Recipe& recipe = loaded.recipe;
  const OrderedJson& variables = recipe.data.chat_template_kwargs;
  const bool named = recipe.data.chat_template || !variables.empty();
  if (!named && data.tokenizer->chat_template().empty()) return std::string();
  FTUNE_ASSIGN_OR_RETURN(const TemplateText text,
                         FindTemplate(recipe.data.chat_template.value_or("auto"),
                                      loaded.At("data.chat_template"), *data.tokenizer, recipe.model.path));
  FTUNE_ASSIGN_OR_RETURN(data.chat_template, ParseTemplateText(text, data.tokenizer->special(), variables));
  const std::string whole = WithVariables(text.source, variables);
  if (named) data.own_template = whole;
  return whole;
}

// Those with a weight; where there are none all, which is an error later on.
std::vector<DataSource> TakenSources(const std::vector<DataSource>& sources) {
  std::vector<DataSource> taken;
  std::copy_if(sources.begin(), sources.end(), std::back_inserter(taken),
               [](const DataSource& source) { return source.weight > 0; });
  return taken.empty() ? sources : taken;
}

}  // namespace

absl::Status CheckIds(const DataReport& report, int64_t vocab_size, const std::string& model) {
  const int32_t id = report.max_id;
  if (id < vocab_size) return absl::OkStatus();
  return DataError({.file = model,
                    .message = "the data has a token that the model has no embedding for",
                    .found = StrCat("token id ", id),
                    .expected = StrCat("ids below ", vocab_size, ", the model's vocab_size"),
                    .hint = "the tokenizer does not belong to this model"});
}

absl::StatusOr<SampleSource> DescribeSource(const std::filesystem::path& tokenizer,
                                            const std::string& template_text, const SampleOptions& options) {
  SampleSource source{.chat_template = DescribeTemplate(template_text), .options = options};
  FTUNE_ASSIGN_OR_RETURN(source.tokenizer, DescribeTokenizer(tokenizer));
  return source;
}

absl::Status WriteDropped(const RunData& data, const std::filesystem::path& path) {
  FTUNE_RETURN_IF_ERROR(MakeFolder(path.parent_path()));
  FTUNE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  FTUNE_RETURN_IF_ERROR(data.VisitDropped([&](const DroppedRow& row) {
    const std::string line = row.ToJson().dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
    return file.Append(StrCat(line, "\n"));
  }));
  return file.Commit();
}

absl::Status RunData::VisitDropped(const DroppedVisitor& visit) const {
  if (train) FTUNE_RETURN_IF_ERROR(train->store->VisitDropped(visit));
  if (!evaluation || (train && evaluation->store == train->store)) return absl::OkStatus();
  return evaluation->store->VisitDropped(visit);
}

AuditReport RunData::Audit() const { return {train->report.audit, stop_ids, *tokenizer}; }

absl::StatusOr<DataPlan> RunData::TrainPlan(const Recipe& recipe, int data_rank) const {
  return DataPlan::Create(train, ToPlanOptions(recipe, data_rank));
}

absl::StatusOr<DataPlan> RunData::EvaluationPlan(const Recipe& recipe, int data_rank) const {
  return DataPlan::CreateForEvaluation(evaluation, ToPlanOptions(recipe, data_rank));
}

absl::StatusOr<std::string> LoadTokenizerOf(const LoadedRecipe& loaded, const ModelPlan& plan,
                                            ModelFiles& files, RunData& data) {
  const ModelSection& model = loaded.recipe.model;
  if (plan.tokenizer != files.path) files.tokenizer_folder = plan.tokenizer;
  ModelConfig config = files.config;
  data.tokenizer_path = plan.tokenizer;
  if (!model.added_tokens.empty()) {
    FTUNE_ASSIGN_OR_RETURN(ScratchFolder folder, ScratchFolder::Create());
    FTUNE_ASSIGN_OR_RETURN(data.added, WriteExtendedTokenizer(files, model.added_tokens, folder.path()));
    data.tokenizer_path = folder.path();
    data.tokenizer_folder.emplace(std::move(folder));
    config.vocab_size = std::max(config.vocab_size, data.added->rows());
    data.notes.push_back(StrCat("added tokens: ", data.added->ids.size(), " of ", model.added_tokens.size(),
                                " are new; the model has ", config.vocab_size, " rows for tokens"));
  }
  FTUNE_ASSIGN_OR_RETURN(data.tokenizer, LoadTokenizer(data.tokenizer_path));
  FTUNE_ASSIGN_OR_RETURN(std::string template_text, ChooseTemplate(loaded, data));
  data.stop_ids = StopIds(config, *data.tokenizer);
  data.vocab_size = config.vocab_size;
  return template_text;
}

void TakeAddedTokens(const RunData& data, LoadModelOptions& options) {
  if (!data.added) return;
  options.growth = {.rows = data.added->rows(), .known = data.added->known, .ids = data.added->ids};
  options.tokenizer_folder = data.tokenizer_folder->path();
}

absl::StatusOr<RunData> LoadRunData(LoadedRecipe& loaded, const ModelPlan& plan, const HubReporter& reporter,
                                    Progress& progress, std::optional<int64_t> most_bytes) {
  FTUNE_RETURN_IF_ERROR(ResolveDatasetsOf(loaded, reporter));
  Recipe& recipe = loaded.recipe;
  FTUNE_ASSIGN_OR_RETURN(ModelFiles files, OpenModel(plan.model_path));
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
  FTUNE_ASSIGN_OR_RETURN(const std::string template_text, LoadTokenizerOf(loaded, plan, files, data));
  PrepareOptions options{.folder = PreparedFolder(recipe.data.prepared_path),
                         .memory_will_do = !recipe.data.prepared_path.has_value(),
                         .build = {.bad_rows = ToBadRows(recipe.data.on_bad_row),
                                   .threads = static_cast<int>(*recipe.launch.threads)},
                         .most_bytes = most_bytes};
  FTUNE_ASSIGN_OR_RETURN(options.source,
                         DescribeSource(data.tokenizer_path, template_text, ToSampleOptions(recipe.data)));
  const auto prepare = [&](const std::vector<DataSource>& sources) -> absl::StatusOr<PreparedDataset> {
    FTUNE_ASSIGN_OR_RETURN(PreparedDataset prepared,
                           PrepareDataset(ToEntries(sources), *data.tokenizer, data.chat_template.get(),
                                          options, ShowPreparation(progress)));
    LimitSamples(prepared.dataset);
    return prepared;
  };
  Dataset rows;
  if (!recipe.data.streaming) {
    FTUNE_ASSIGN_OR_RETURN(PreparedDataset prepared, prepare(TakenSources(recipe.data.train)));
    data.train_store = prepared.store;
    data.train_files = std::move(prepared.files);
    rows = std::move(prepared.dataset);
  }
  if (!recipe.data.eval.empty()) {
    FTUNE_ASSIGN_OR_RETURN(PreparedDataset evaluation, prepare(recipe.data.eval));
    data.evaluation_store = evaluation.store;
    data.evaluation_files = std::move(evaluation.files);
    data.evaluation = std::make_shared<Dataset>(std::move(evaluation.dataset));
  } else if (!recipe.data.val_set_size.empty()) {
    const CountOrShare& size = recipe.data.val_set_size;
    FTUNE_ASSIGN_OR_RETURN(
        TrainAndEvaluation split,
        SplitDataset(std::move(rows), size.count > 0 ? static_cast<double>(size.count) : size.share));
    rows = std::move(split.train);
    data.evaluation = std::make_shared<Dataset>(std::move(split.evaluation));
  }
  if (!recipe.data.streaming) data.train = std::make_shared<Dataset>(std::move(rows));
  for (const auto& dataset : {data.train, data.evaluation}) {
    if (dataset) FTUNE_RETURN_IF_ERROR(CheckIds(dataset->report, data.vocab_size, recipe.model.path));
  }
  return data;
}

std::string DescribeDataset(const Dataset& dataset) {
  const double share =
      100.0 * static_cast<double>(dataset.trained_tokens()) / static_cast<double>(dataset.tokens());
  std::string text = absl::StrFormat("%d samples, %d tokens, %d trained (%.1f %%)", dataset.size(),
                                     dataset.tokens(), dataset.trained_tokens(), share);
  for (const auto& [reason, count] : dataset.report.dropped)
    StrAppend(text, ", ", count, " dropped (", reason, ")");
  const auto mention = [&](int64_t count, std::string_view what) {
    if (count > 0) StrAppend(text, ", ", count, " ", what);
  };
  mention(dataset.report.truncated_rows, "truncated");
  mention(dataset.report.split_rows, "split");
  mention(dataset.report.audit.bos_samples[2], "with a doubled BOS");
  return text;
}

}  // namespace ftune
