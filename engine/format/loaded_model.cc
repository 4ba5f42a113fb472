#include "engine/format/loaded_model.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "engine/format/file_names.h"
#include "engine/format/load_weights.h"
#include "engine/format/lora_files.h"
#include "engine/format/model_shapes.h"
#include "engine/format/trained_values.h"
#include "engine/format/untied_weights.h"
#include "engine/model/modules.h"
#include "engine/model/tensor_split.h"

namespace ftune {
namespace {

// An adapter to be loaded, with its place in this model.
struct Adapter {
  std::shared_ptr<const PeftAdapter> peft;  // without weights: a new adapter
  LoraTargets targets;
};

absl::StatusOr<Adapter> ResolveAdapter(PeftAdapter peft, const ModelConfig& config,
                                       const OptionsOrigin& origin) {
  Adapter adapter;
  FTUNE_ASSIGN_OR_RETURN(adapter.targets, LoraTargets::Resolve(peft.config.lora, config, origin));
  if (!origin.is_recipe && SharesTiedAdapter(peft.config.lora, adapter.targets, config)) {
    return DataError({.file = origin.file,
                      .key = "ensure_weight_tying",
                      .message =
                          "this feature of the adapter is not supported: one A and B for the embedding "
                          "and its tied head",
                      .found = "true"});
  }
  adapter.peft = std::make_shared<const PeftAdapter>(std::move(peft));
  return adapter;
}

absl::StatusOr<std::vector<PeftAdapter>> OpenAdapters(const LoadModelOptions& options) {
  std::vector<PeftAdapter> opened;
  for (const std::filesystem::path& folder : options.adapters) {
    FTUNE_ASSIGN_OR_RETURN(PeftAdapter adapter, OpenPeftAdapter(folder));
    opened.push_back(std::move(adapter));
  }
  if (options.lora) {
    if (opened.empty()) opened.emplace_back();
    opened.back().config.lora = *options.lora;
  }
  return opened;
}

// Makes room for tokens that the recipe adds, or that an adapter was trained with.
absl::Status GrowVocabulary(const LoadModelOptions& options, std::vector<PeftAdapter>& adapters,
                            ModelFiles& files) {
  files.tokenizer_folder = options.tokenizer_folder;
  if (files.tokenizer_folder.empty() && !options.adapters.empty()) {
    const std::filesystem::path& last = options.adapters.back();
    if (Exists(last / "tokenizer.json") || Exists(last / "tokenizer.model")) files.tokenizer_folder = last;
  }
  const ModuleNames& names = files.config.architecture->names;
  const std::vector<std::string> ends = {StrCat(names.embedding, ".weight"), StrCat(names.head, ".weight")};
  RowGrowth growth = options.growth.value_or(RowGrowth{.known = files.config.vocab_size});
  for (const PeftAdapter& adapter : adapters) {
    for (const std::string& name : ends) {
      const SourceTensor* saved = adapter.weights != nullptr ? adapter.weights->Find(name) : nullptr;
      if (saved == nullptr || saved->shape.size() != 2) continue;
      growth.rows = std::max(growth.rows, saved->shape[0]);
      if (growth.ids.empty() || saved->shape[0] <= files.config.vocab_size) continue;
      return UsageError({.file = saved->file,
                         .key = "model.added_tokens",
                         .message = "the adapter has added tokens already, to which no more can be added",
                         .hint = "merge it first (ftune export --merge) and add tokens to the result"});
    }
  }
  if (growth.ids.empty() && growth.rows <= files.config.vocab_size) return absl::OkStatus();
  // New rows are learned: with an adapter, their whole tensors are saved beside it.
  if (!growth.ids.empty() && !adapters.empty()) {
    std::vector<std::string>& saved = adapters.back().config.lora.modules_to_save;
    saved.emplace_back(LastComponent(names.embedding));
    if (!files.config.tied_head) saved.emplace_back(LastComponent(names.head));
    std::sort(saved.begin(), saved.end());
    saved.erase(std::unique(saved.begin(), saved.end()), saved.end());
  }
  FTUNE_ASSIGN_OR_RETURN(files.weights, GrowRows(std::move(files.weights), ends, growth));
  files.config.vocab_size = std::max(files.config.vocab_size, growth.rows);
  return absl::OkStatus();
}

absl::Status ManyOnQuantized(const LoadModelOptions& options) {
  return UsageError({.file = options.adapters.back().string(),
                     .message = "several adapters on a quantised base are not supported",
                     .found = StrCat(options.adapters.size(), " adapters"),
                     .expected = "one",
                     .hint = "merge the first with `ftune export --merge`, then the next into the result"});
}

void PutTrained(const LoadModelOptions& options, ModelFiles& files) {
  for (const auto& trained : options.trained) files.weights = Overlay(std::move(files.weights), trained);
}

}  // namespace

absl::StatusOr<LoadedModel> LoadModel(Backend& backend, Stream stream, const std::filesystem::path& path,
                                      const LoadModelOptions& options) {
  LoadedModel loaded;
  FTUNE_ASSIGN_OR_RETURN(loaded.files, options.shapes_only ? OpenModelShapes(path) : OpenModel(path));
  if (options.context) {
    loaded.files.config.rope = options.context->rope;
    loaded.files.config.max_position = options.context->max_position;
  }
  ModelConfig& config = loaded.files.config;
  FTUNE_RETURN_IF_ERROR(CheckTensorSplit(config, options.tensor.size()));

  FTUNE_ASSIGN_OR_RETURN(std::vector<PeftAdapter> opened, OpenAdapters(options));
  FTUNE_RETURN_IF_ERROR(GrowVocabulary(options, opened, loaded.files));
  std::vector<Adapter> adapters;
  bool untie = false;
  for (size_t i = 0; i < opened.size(); ++i) {
    const bool last = i + 1 == opened.size();
    const bool from_recipe = last && options.lora.has_value();
    const std::string file =
        options.adapters.empty() ? "" : (options.adapters[i] / kAdapterConfigFile).string();
    untie = untie || UntiesHead(opened[i].config.lora, config);
    ModelConfig seen = config;
    seen.tied_head = config.tied_head && !untie;
    FTUNE_ASSIGN_OR_RETURN(Adapter adapter,
                           ResolveAdapter(std::move(opened[i]), seen,
                                          {.file = from_recipe ? "" : file, .is_recipe = from_recipe}));
    untie = untie || (adapter.targets.ChangesEnds() && (options.for_merging || !last));
    adapters.push_back(std::move(adapter));
  }
  if (config.tied_head && untie) {
    const auto& names = config.architecture->names;
    // The head begins as the embedding was trained.
    PutTrained(options, loaded.files);
    loaded.files.weights = UntieHead(std::move(loaded.files.weights), StrCat(names.embedding, ".weight"),
                                     StrCat(names.head, ".weight"));
    config.tied_head = false;
  }

  StorageOptions storage = {
      .trainable = options.trainable ? options.trainable : [](const std::string&) { return false; },
      .trainable_dtype = options.trainable_dtype,
      .frozen_dtype = options.frozen_dtype,
      .quantize = options.quantize};
  if (options.quantize) {
    if (adapters.size() > 1) return ManyOnQuantized(options);
    const std::vector<std::string> linears = LinearModules(config);
    storage.quantized_modules = {linears.begin(), linears.end()};
    loaded.quantize = options.quantize;
  }
  AdapterFactories factories;
  if (!adapters.empty()) {
    const Adapter& last = adapters.back();
    loaded.lora = last.peft->config.lora;
    loaded.targets = last.targets;
    factories = MakeLoraFactories(*loaded.lora, *loaded.targets);
    storage.trainable = [targets = *loaded.targets](const std::string& name) { return targets.Saves(name); };
    storage.trainable_dtype = DType::kF32;
    if (adapters.size() > 1) storage.frozen_dtype = DType::kF32;
  }
  std::shared_ptr<const WeightSource> trained_adapter;
  for (const auto& trained : options.trained) {
    FTUNE_RETURN_IF_ERROR(CheckTrained(config, factories, *trained));
    if (HasAdapterValues(*trained)) trained_adapter = trained;
  }
  PutTrained(options, loaded.files);
  const int64_t max_length = options.max_length > 0 ? options.max_length : config.LongestText();
  const bool placed = options.ranks || options.streamed;
  loaded.model = std::make_unique<Model>(
      backend, stream, config, MakeParameterPolicy(storage, *loaded.files.weights, std::move(factories)),
      max_length, options.tensor, placed ? ValueMemory::kPlaced : ValueMemory::kOwn,
      options.ranks ? options.ranks->part : ModelPart());
  Model& model = *loaded.model;
  // Of the last adapter; nothing of a new one.
  ParameterFill fill_adapter;
  if (trained_adapter) {
    fill_adapter = PrepareTrainedAdapter(backend, stream, trained_adapter);
  } else if (!adapters.empty() && adapters.back().peft->weights != nullptr) {
    FTUNE_ASSIGN_OR_RETURN(
        fill_adapter, PrepareLora(backend, stream, model, adapters.back().targets, adapters.back().peft));
  }
  if (options.streamed) {
    std::vector<ParameterFill> fills(1);
    FTUNE_ASSIGN_OR_RETURN(fills[0], PrepareWeights(backend, stream, model, *loaded.files.weights));
    if (fill_adapter) fills.push_back(std::move(fill_adapter));
    loaded.streamed = std::make_unique<StreamedValues>(backend, model, std::move(fills));
    return loaded;
  }
  if (options.ranks) {
    const LoadRanks& ranks = *options.ranks;
    FTUNE_ASSIGN_OR_RETURN(loaded.shards, ModelShards::Create(backend, stream, model, *ranks.mesh,
                                                              ranks.sharding, ranks.optimizer));
  }
  FTUNE_RETURN_IF_ERROR(LoadWeights(backend, stream, model, *loaded.files.weights));

  for (size_t i = 0; i + 1 < adapters.size(); ++i) {
    FTUNE_RETURN_IF_ERROR(MergeLoraFolder(backend, stream, model, adapters[i].targets, adapters[i].peft));
  }
  if (fill_adapter) {
    FTUNE_RETURN_IF_ERROR(ChangeValues(model, fill_adapter));
  } else if (!adapters.empty()) {
    InitLoraValues(backend, stream, model, adapters.back().targets, options.seed);
  }
  return loaded;
}

}  // namespace ftune
