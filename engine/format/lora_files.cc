#include "engine/format/lora_files.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "engine/adapter/dora_norms.h"
#include "engine/adapter/lora_merge.h"
#include "engine/adapter/lora_names.h"
#include "engine/format/load_weights.h"
#include "engine/format/model_tensors.h"
#include "engine/model/modules.h"
#include "engine/model/slices.h"

namespace ftune {
namespace {

// The name by which PEFT knows an embedding that it can tie (utils/constants.py, EMBEDDING_LAYER_NAMES).
constexpr std::string_view kTiedName = "embed_tokens";
// What PEFT calls the base's own weight of an adapted module; it saves those of embeddings.
constexpr std::string_view kBaseLayer = ".base_layer.weight";

// An embedding's A is stored the other way round here.
bool IsTransposed(const Parameter& parameter) { return parameter.name.ends_with(kLoraEmbeddingA); }

std::vector<int64_t> FileShape(const Parameter& parameter) {
  std::vector<int64_t> shape = parameter.shape;
  if (IsTransposed(parameter)) std::swap(shape[0], shape[1]);
  return shape;
}

void LoadTransposed(Backend& backend, Stream stream, const SourceTensor& tensor, const Parameter& parameter) {
  const int64_t rows = parameter.shape[1], cols = parameter.shape[0];  // of the file
  const Tensor staged = backend.Allocate(tensor.dtype, rows, cols, Category::kBuffers);
  const Tensor wide = backend.Allocate(rows, cols, Category::kBuffers);
  backend.Upload(stream, tensor.bytes, staged);
  backend.Convert(stream, staged, wide);
  std::vector<float> values(wide.size()), turned(wide.size());
  backend.Download(stream, wide, std::as_writable_bytes(std::span(values)));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) turned[c * rows + r] = values[r * cols + c];
  }
  const std::vector<float> slice = SliceOf(parameter, turned);
  backend.Upload(stream, std::as_bytes(std::span(slice)), parameter.value);
}

class Loader {
 public:
  Loader(Backend& backend, Stream stream, std::shared_ptr<const PeftAdapter> adapter)
      : backend_(backend), stream_(stream), adapter_(std::move(adapter)) {}

  // The tensor that the adapter has for a parameter; none where it has nothing to say.
  absl::StatusOr<const SourceTensor*> Find(const Parameter& p, const LoraTargets& targets) {
    if (IsAdapterParameter(p.name) || targets.Saves(p.name)) return Get(p, p.name);
    // The base's own weight, which PEFT saves with an adapted embedding: it may have been resized or
    // replaced.
    const std::string module = p.name.substr(0, p.name.rfind('.'));
    const std::string base_layer = StrCat(module, kBaseLayer);
    const bool has = targets.Find(module) != nullptr && adapter_->weights->Find(base_layer) != nullptr;
    return has ? Get(p, base_layer) : absl::StatusOr<const SourceTensor*>(nullptr);
  }

  absl::Status LoadIfThere(const Parameter& p, const LoraTargets& targets) {
    FTUNE_ASSIGN_OR_RETURN(const SourceTensor* tensor, Find(p, targets));
    if (tensor == nullptr) return absl::OkStatus();
    if (!IsTransposed(p)) return LoadParameter(backend_, stream_, *tensor, p);
    LoadTransposed(backend_, stream_, *tensor, p);
    return absl::OkStatus();
  }

  // What there is for parameters of stages that other ranks have is theirs to load.
  void LeaveToOthers(const ModelConfig& config, const LoraTargets& targets) {
    for (const ParameterShape& p :
         AdaptedModelParameters(config, MakeLoraFactories(adapter_->config.lora, targets))) {
      const std::string module = p.name.substr(0, p.name.rfind('.'));
      if (IsAdapterParameter(p.name) || targets.Saves(p.name)) used_.insert(p.name);
      if (targets.Find(module) != nullptr) used_.insert(StrCat(module, kBaseLayer));
    }
  }

  absl::Status CheckAllUsed() const {
    for (const SourceTensor& tensor : adapter_->weights->tensors()) {
      if (used_.contains(tensor.name) || RepeatsUsed(tensor)) continue;
      return DataError({.file = tensor.file,
                        .key = tensor.name,
                        .message = "this tensor of the adapter fits no module of the model",
                        .hint = Hint("do its target_modules in adapter_config.json leave it out?")});
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<const SourceTensor*> Get(const Parameter& parameter, const std::string& name) {
    const SourceTensor* tensor = adapter_->weights->Find(name);
    if (tensor == nullptr) {
      const auto& tensors = adapter_->weights->tensors();
      return DataError({.file = tensors.empty() ? "" : tensors.front().file,
                        .key = name,
                        .message = "the adapter lacks this tensor",
                        .hint = Hint("do its target_modules in adapter_config.json name more than it has?")});
    }
    if (tensor->shape != FileShape(parameter)) {
      return DataError({.file = tensor->file,
                        .key = name,
                        .found = StrCat("shape [", StrJoin(tensor->shape, ", "), "]"),
                        .expected = StrCat("[", StrJoin(FileShape(parameter), ", "),
                                           "], by the adapter's rank and the model's module"),
                        .hint = Hint("the rank in adapter_config.json must be that of the tensors")});
    }
    if (!IsFloat(tensor->dtype)) {
      return DataError({.file = tensor->file,
                        .key = name,
                        .found = StrCat("dtype ", Name(tensor->dtype)),
                        .expected = "a floating-point type"});
    }
    used_.insert(tensor->name);
    return tensor;
  }

  // PEFT saves both ends of a tied pair, though it is one.
  bool RepeatsUsed(const SourceTensor& tensor) const {
    if (IsAdapterParameter(tensor.name)) return false;
    const auto& tensors = adapter_->weights->tensors();
    return std::any_of(tensors.begin(), tensors.end(), [&](const SourceTensor& other) {
      return used_.contains(other.name) && other.dtype == tensor.dtype && other.shape == tensor.shape &&
             std::equal(other.bytes.begin(), other.bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
    });
  }

  std::string Hint(const std::string& otherwise) const {
    const std::string& base = adapter_->config.base_model;
    return StrCat("was the adapter made for another base model? ",
                  base.empty() ? "" : StrCat("It says for '", base, "'. "), "If not, ", otherwise);
  }

  Backend& backend_;
  Stream stream_;
  std::shared_ptr<const PeftAdapter> adapter_;
  std::set<std::string> used_;
};

// The adapter's own parameters in a store, without a model.
void DeclareAdapter(const ModelConfig& config, const LoraOptions& options, const LoraTargets& targets,
                    ParameterStore& store) {
  for (const ParameterShape& p :
       AdaptedModelParameters(config, MakeLoraFactories(options, targets), store.position())) {
    if (!IsAdapterParameter(p.name)) continue;
    store.Declare(p.name, p.dims, Placement::Replicate(), DType::kF32, true, false);
  }
}

bool SavesEnd(const LoraOptions& options, const ModelConfig& config) {
  const auto& names = config.architecture->names;
  return IsSaved(StrCat(names.embedding, ".weight"), options.modules_to_save) ||
         IsSaved(StrCat(names.head, ".weight"), options.modules_to_save);
}

bool PeftTies(const LoraOptions& options, const ModelConfig& config) {
  return options.tie_saved && config.tied_head &&
         LastComponent(config.architecture->names.embedding) == kTiedName;
}

}  // namespace

bool UntiesHead(const LoraOptions& options, const ModelConfig& config) {
  return config.tied_head && SavesEnd(options, config) && !PeftTies(options, config);
}

bool SharesTiedAdapter(const LoraOptions& options, const LoraTargets& targets, const ModelConfig& config) {
  return PeftTies(options, config) && !SavesEnd(options, config) && targets.ChangesEnds();
}

absl::StatusOr<ParameterFill> PrepareLora(Backend& backend, Stream stream, const Model& model,
                                          const LoraTargets& targets,
                                          std::shared_ptr<const PeftAdapter> adapter) {
  auto loader = std::make_shared<Loader>(backend, stream, std::move(adapter));
  for (const Parameter* p : model.parameters()) FTUNE_RETURN_IF_ERROR(loader->Find(*p, targets).status());
  loader->LeaveToOthers(model.config(), targets);
  FTUNE_RETURN_IF_ERROR(loader->CheckAllUsed());
  return [loader, targets](const Parameter& p) { return loader->LoadIfThere(p, targets); };
}

absl::Status MergeLoraFolder(Backend& backend, Stream stream, Model& model, const LoraTargets& targets,
                             std::shared_ptr<const PeftAdapter> adapter) {
  // This adapter's parameters, in place of those of the one that the model has.
  ParameterStore store(model.tensor_axis().position());
  DeclareAdapter(model.config(), adapter->config.lora, targets, store);
  store.Allocate(backend);
  Loader loader(backend, stream, std::move(adapter));
  for (const Parameter& p : store.parameters()) FTUNE_RETURN_IF_ERROR(loader.LoadIfThere(p, targets));

  const auto find = [&](const std::string& name) -> const Parameter* {
    const auto& all = store.parameters();
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const Parameter& p) { return p.name == name; });
    return found == all.end() ? nullptr : &*found;
  };
  for (size_t i = 0; i < model.blocks().size(); ++i) {
    const BlockChange change(model.hooks(), i);
    for (const Parameter& p : model.blocks()[i]->store().parameters()) {
      if (IsAdapterParameter(p.name)) continue;
      FTUNE_RETURN_IF_ERROR(loader.LoadIfThere(p, targets));
      const LoraModule* lora =
          p.name.ends_with(".weight") ? targets.Find(p.name.substr(0, p.name.rfind('.'))) : nullptr;
      if (lora == nullptr) continue;
      MergeLora(backend, stream, *lora, FindLoraValues(*lora, find),
                AxisOfInputs(*lora, p, model.tensor_axis()), p.value);
    }
  }
  loader.LeaveToOthers(model.config(), targets);
  return loader.CheckAllUsed();
}

absl::Status SaveLora(const Model& model, const LoraOptions& options, const LoraTargets& targets,
                      const ModelFiles& base, std::span<const OutputTensor> tensors,
                      const std::filesystem::path& folder) {
  PeftConfig config;
  config.lora = options;
  config.base_model = base.name.empty() ? base.path.string() : base.name;
  config.base_revision = base.revision;
  config.of_multimodal = base.text_only;
  // As the user gave them; all-linear as the names that it stands for, which every reader knows.
  const auto* text = std::get_if<std::string>(&options.target_modules);
  if (text != nullptr && *text == kAllLinear) config.lora.target_modules = targets.suffixes();
  // Other parts of a multimodal model have modules of the same last names: these are named in full.
  if (base.text_only) {
    std::vector<std::string> names;
    for (const LoraModule& lora : targets.modules()) names.push_back(lora.module.name);
    config.lora.target_modules = std::move(names);
  }
  config.fan_in_fan_out = std::any_of(targets.modules().begin(), targets.modules().end(),
                                      [](const LoraModule& lora) { return lora.module.transposed; });
  // PEFT ties a pair again under the embedding's name, and saves and wants both ends.
  const auto& architecture = model.config().architecture->names;
  config.lora.tie_saved =
      model.config().tied_head && targets.Saves(StrCat(architecture.embedding, ".weight"));
  if (config.lora.tie_saved) {
    std::vector<std::string>& names = config.lora.modules_to_save;
    std::erase_if(names, [&](const std::string& name) {
      return architecture.head.ends_with(name) || architecture.embedding.ends_with(name);
    });
    names.emplace_back(kTiedName);
  }
  return WritePeftAdapter(folder, config, tensors);
}

}  // namespace ftune
