#include "engine/format/peft.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/json_file.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "engine/format/file_names.h"
#include "engine/format/safetensors_weights.h"
#include "engine/format/shard_writer.h"

namespace ftune {
namespace {

using nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kPrefix = "base_model.model.";

// Fields of peft's LoraConfig (tuners/lora/config.py) that change what the adapter computes or to which
// modules it belongs. Null, an empty list and an empty object always mean "not used".
struct NeutralPeftField {
  const char* key;
  const char* neutral;  // JSON
};
constexpr NeutralPeftField kFeatures[] = {
    {"bias", "\"none\""},          {"lora_bias", "false"},
    {"layer_replication", "null"}, {"trainable_token_indices", "null"},
    {"target_parameters", "null"}, {"alora_invocation_tokens", "null"},
    {"use_qalora", "false"},       {"use_bdlora", "null"},
    {"arrow_config", "null"},      {"kasa_config", "null"},
    {"velora_config", "null"},     {"monteclora_config", "null"},
    {"megatron_config", "null"},   {"task_type", "\"CAUSAL_LM\""},
};

bool IsUnused(const json& value) { return value.is_null() || (value.is_structured() && value.empty()); }

bool IsUnset(const json& root, const char* key) { return !root.contains(key) || IsUnused(root[key]); }

absl::StatusOr<std::vector<std::string>> ReadStrings(const json& list, const std::string& key,
                                                     const std::string& file) {
  std::vector<std::string> texts;
  for (const json& item : list) {
    if (!item.is_string()) {
      return DataError({.file = file, .key = key, .found = Excerpt(item), .expected = "a string"});
    }
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

// A list of names, or a text. `names` stays as it is where the field is not used.
absl::Status ReadNames(const json& root, const char* key, const std::string& file, ModuleFilter& names) {
  if (IsUnset(root, key)) return absl::OkStatus();
  const json& value = root[key];
  if (value.is_string()) {
    names = value.get<std::string>();
    return absl::OkStatus();
  }
  if (!value.is_array()) {
    return DataError(
        {.file = file, .key = key, .found = Excerpt(value), .expected = "a list of module names, or a text"});
  }
  FTUNE_ASSIGN_OR_RETURN(names, ReadStrings(value, key, file));
  return absl::OkStatus();
}

// A list of strings, or one.
absl::Status ReadList(const json& root, const char* key, const std::string& file,
                      std::vector<std::string>& list) {
  ModuleFilter names;
  FTUNE_RETURN_IF_ERROR(ReadNames(root, key, file, names));
  if (const auto* text = std::get_if<std::string>(&names)) {
    list = {*text};
  } else {
    list = std::get<std::vector<std::string>>(names);
  }
  return absl::OkStatus();
}

absl::Status CheckRank(int64_t rank, const std::string& key, const std::string& file) {
  if (rank > 0 && rank <= INT32_MAX) return absl::OkStatus();
  return DataError({.file = file, .key = key, .found = StrCat(rank), .expected = "a positive integer"});
}

absl::Status CheckAlpha(double alpha, const std::string& key, const std::string& file) {
  if (std::isfinite(alpha)) return absl::OkStatus();
  return DataError({.file = file, .key = key, .found = StrCat(alpha), .expected = "a number"});
}

// A map of regular expressions, in the file's order: the first that matches counts.
template <class T>
absl::Status ReadPattern(const OrderedJson& root, const char* key, const std::string& file,
                         absl::Status (*check)(T, const std::string&, const std::string&),
                         PatternValues<T>& pattern) {
  const auto map = root.find(key);
  if (map == root.end() || map->is_null()) return absl::OkStatus();
  if (!map->is_object()) {
    return DataError({.file = file,
                      .key = key,
                      .found = Excerpt(json(*map)),
                      .expected = "an object of patterns and numbers"});
  }
  for (const auto& [text, value] : map->items()) {
    FTUNE_ASSIGN_OR_RETURN(const T number, RequiredField<T>(json(*map), text, file));
    FTUNE_RETURN_IF_ERROR(check(number, StrCat(key, ".", text), file));
    pattern.emplace_back(text, number);
  }
  return absl::OkStatus();
}

struct Replacement {
  std::string_view from, to;
};

// A module's name, or a regular expression of names, of a multimodal model as that of its text model.
std::string WithoutWrapper(std::string name) {
  for (const auto& [from, to] : {Replacement{"model.language_model.", "model."},
                                 Replacement{"model\\.language_model\\.", "model\\."}}) {
    for (size_t at = 0; (at = name.find(from, at)) != std::string::npos; at += to.size()) {
      name.replace(at, from.size(), to);
    }
  }
  return name;
}

// The other way round, for names.
std::string WithWrapper(std::string_view name) {
  constexpr std::string_view kText = "model.";
  return name.starts_with(kText) ? StrCat("model.language_model.", name.substr(kText.size()))
                                 : std::string(name);
}

absl::Status ReadTargets(const json& root, const std::string& file, LoraOptions& lora) {
  if (IsUnset(root, "target_modules")) {
    return DataError({.file = file,
                      .key = "target_modules",
                      .found = root.contains("target_modules") ? Excerpt(root["target_modules"]) : "nothing",
                      .expected = "a list of module names, or a text"});
  }
  FTUNE_RETURN_IF_ERROR(ReadNames(root, "target_modules", file, lora.target_modules));
  if (auto* names = std::get_if<std::vector<std::string>>(&lora.target_modules)) {
    for (std::string& name : *names) name = WithoutWrapper(name);
  } else {
    auto& pattern = std::get<std::string>(lora.target_modules);
    pattern = WithoutWrapper(pattern);
  }
  FTUNE_RETURN_IF_ERROR(ReadNames(root, "exclude_modules", file, lora.exclude_modules));
  FTUNE_RETURN_IF_ERROR(ReadList(root, "layers_pattern", file, lora.layers_pattern));
  FTUNE_RETURN_IF_ERROR(ReadList(root, "modules_to_save", file, lora.modules_to_save));
  if (IsUnset(root, "layers_to_transform")) return absl::OkStatus();
  const json& layers = root["layers_to_transform"];
  for (const json& layer : layers.is_array() ? layers : json::array({layers})) {
    if (!layer.is_number_integer() || std::holds_alternative<std::string>(lora.target_modules)) {
      return DataError({.file = file,
                        .key = "layers_to_transform",
                        .found = Excerpt(layers),
                        .expected = "integers, together with a list of target_modules"});
    }
    lora.layers_to_transform.push_back(layer.get<int64_t>());
  }
  return absl::OkStatus();
}

absl::Status ReadNumbers(const json& root, const std::string& file, LoraOptions& lora) {
  FTUNE_ASSIGN_OR_RETURN(lora.rank, FieldOr<int64_t>(root, "r", 8, file));
  FTUNE_ASSIGN_OR_RETURN(lora.alpha, FieldOr<double>(root, "lora_alpha", 8.0, file));
  FTUNE_ASSIGN_OR_RETURN(lora.dropout, FieldOr<double>(root, "lora_dropout", 0.0, file));
  FTUNE_ASSIGN_OR_RETURN(lora.rslora, FieldOr<bool>(root, "use_rslora", false, file));
  FTUNE_ASSIGN_OR_RETURN(lora.dora, FieldOr<bool>(root, "use_dora", false, file));
  FTUNE_ASSIGN_OR_RETURN(lora.tie_saved, FieldOr<bool>(root, "ensure_weight_tying", false, file));
  FTUNE_RETURN_IF_ERROR(CheckRank(lora.rank, "r", file));
  FTUNE_RETURN_IF_ERROR(CheckAlpha(lora.alpha, "lora_alpha", file));
  if (!(lora.dropout >= 0 && lora.dropout < 1)) {
    return DataError({.file = file,
                      .key = "lora_dropout",
                      .found = StrCat(lora.dropout),
                      .expected = "at least 0 and less than 1"});
  }
  return absl::OkStatus();
}

// Initialisations that change the base's weights (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA): the adapter fits only
// the changed base.
bool ChangesBase(const json& init) {
  if (!init.is_string()) return false;
  const std::string name = init.get<std::string>();
  return name != "gaussian" && name != "eva" && name != "orthogonal";
}

void ReadFeatures(const json& root, PeftConfig& config) {
  for (const NeutralPeftField& feature : kFeatures) {
    const auto value = root.find(feature.key);
    if (value == root.end() || IsUnused(*value) || *value == json::parse(feature.neutral)) continue;
    config.other_features.emplace_back(feature.key, Excerpt(*value));
  }
  const auto init = root.find("init_lora_weights");
  if (init != root.end() && ChangesBase(*init)) {
    config.other_features.emplace_back("init_lora_weights", Excerpt(*init));
  }
}

// An adapter's tensors under the model's own names.
class PeftWeights : public WeightSource {
 public:
  explicit PeftWeights(std::unique_ptr<SafetensorsWeights> file, std::filesystem::path path)
      : file_(std::move(file)), path_(std::move(path)), tensors_(file_->tensors()) {}

  absl::Status StripPrefix() {
    for (SourceTensor& tensor : tensors_) {
      if (!tensor.name.starts_with(kPrefix)) {
        return DataError({.file = tensor.file,
                          .key = tensor.name,
                          .message = "not the name of a tensor of a PEFT adapter",
                          .expected = StrCat("it to begin with ", kPrefix)});
      }
      tensor.name = WithoutWrapper(tensor.name.substr(kPrefix.size()));
    }
    std::sort(tensors_.begin(), tensors_.end(),
              [](const SourceTensor& a, const SourceTensor& b) { return a.name < b.name; });
    return absl::OkStatus();
  }
  const std::vector<SourceTensor>& tensors() const override { return tensors_; }

 private:
  std::string origin() const override { return path_.string(); }

  std::unique_ptr<SafetensorsWeights> file_;
  std::filesystem::path path_;
  std::vector<SourceTensor> tensors_;
};

// PEFT's own fields of this kind are integers, though it computes with any number.
OrderedJson Number(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? OrderedJson(static_cast<int64_t>(value)) : OrderedJson(value);
}

OrderedJson Names(const ModuleFilter& names) {
  return std::visit(
      [](const auto& value) { return value.empty() ? OrderedJson(nullptr) : OrderedJson(value); }, names);
}

template <class T>
OrderedJson NullIfEmpty(const std::vector<T>& values) {
  return values.empty() ? OrderedJson(nullptr) : OrderedJson(values);
}

}  // namespace

absl::StatusOr<PeftConfig> ReadPeftConfig(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kAdapterConfigFile;
  const std::string file = path.string();
  if (!Exists(path)) {
    return DataError({.file = folder.string(),
                      .message = StrCat("not an adapter: there is no ", kAdapterConfigFile, " in it"),
                      .hint = "give the folder that PEFT or ftune wrote"});
  }
  FTUNE_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(path));
  return ParsePeftConfig(mapped.text(), file);
}

absl::StatusOr<PeftConfig> ParsePeftConfig(std::string_view text, const std::string& file) {
  FTUNE_ASSIGN_OR_RETURN(const json root, ParseJson(text, file));
  if (!root.is_object())
    return DataError({.file = file, .found = Excerpt(root), .expected = "a JSON object"});
  FTUNE_ASSIGN_OR_RETURN(const std::string type, RequiredField<std::string>(root, "peft_type", file));
  if (type != "LORA") {
    return DataError({.file = file,
                      .key = "peft_type",
                      .message = "the kind of adapter is not supported",
                      .found = StrCat("'", type, "'"),
                      .expected = "LORA"});
  }
  PeftConfig config;
  FTUNE_RETURN_IF_ERROR(ReadNumbers(root, file, config.lora));
  FTUNE_RETURN_IF_ERROR(ReadTargets(root, file, config.lora));
  // Once more, keeping the order of keys.
  const OrderedJson ordered = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  FTUNE_RETURN_IF_ERROR(
      ReadPattern<int64_t>(ordered, "rank_pattern", file, &CheckRank, config.lora.rank_pattern));
  FTUNE_RETURN_IF_ERROR(
      ReadPattern<double>(ordered, "alpha_pattern", file, &CheckAlpha, config.lora.alpha_pattern));
  FTUNE_ASSIGN_OR_RETURN(config.base_model, FieldOr<std::string>(root, "base_model_name_or_path", "", file));
  FTUNE_ASSIGN_OR_RETURN(config.base_revision, FieldOr<std::string>(root, "revision", "", file));
  ReadFeatures(root, config);
  return config;
}

// Keys sorted, as PEFT writes them; the order within the patterns matters and is kept.
std::string WritePeftConfig(const PeftConfig& config) {
  const LoraOptions& lora = config.lora;
  OrderedJson alphas = OrderedJson::object(), ranks = OrderedJson::object();
  for (const auto& [pattern, alpha] : lora.alpha_pattern) alphas[pattern] = Number(alpha);
  for (const auto& [pattern, rank] : lora.rank_pattern) ranks[pattern] = rank;
  const OrderedJson revision =
      config.base_revision.empty() ? OrderedJson(nullptr) : OrderedJson(config.base_revision);
  const OrderedJson base = config.base_model.empty() ? OrderedJson(nullptr) : OrderedJson(config.base_model);
  OrderedJson root = {{"alpha_pattern", alphas},
                      {"base_model_name_or_path", base},
                      {"bias", "none"},
                      {"exclude_modules", Names(lora.exclude_modules)},
                      {"fan_in_fan_out", config.fan_in_fan_out},
                      {"inference_mode", true},
                      {"init_lora_weights", true},
                      {"layers_pattern", NullIfEmpty(lora.layers_pattern)},
                      {"layers_to_transform", NullIfEmpty(lora.layers_to_transform)},
                      {"lora_alpha", Number(lora.alpha)},
                      {"lora_dropout", lora.dropout},
                      {"modules_to_save", NullIfEmpty(lora.modules_to_save)},
                      {"peft_type", "LORA"},
                      {"r", lora.rank},
                      {"rank_pattern", ranks},
                      {"revision", revision},
                      {"target_modules", Names(lora.target_modules)},
                      {"task_type", "CAUSAL_LM"},
                      {"use_dora", lora.dora},
                      {"use_rslora", lora.rslora}};
  // Only where there is something to tie: PEFT warns otherwise, and versions before 0.18 do not know it.
  if (lora.tie_saved) root["ensure_weight_tying"] = true;
  return root.dump(2) + "\n";
}

absl::Status CheckSupported(const PeftConfig& config, const std::string& file) {
  const auto refuse = [&](const std::string& key, const std::string& found) {
    return DataError({.file = file,
                      .key = key,
                      .message = "this feature of the adapter is not supported",
                      .found = found});
  };
  if (!config.other_features.empty()) {
    return refuse(config.other_features.front().first, config.other_features.front().second);
  }
  return absl::OkStatus();
}

absl::StatusOr<PeftAdapter> OpenPeftAdapter(const std::filesystem::path& folder) {
  PeftAdapter adapter;
  FTUNE_ASSIGN_OR_RETURN(adapter.config, ReadPeftConfig(folder));
  FTUNE_RETURN_IF_ERROR(CheckSupported(adapter.config, (folder / kAdapterConfigFile).string()));
  const std::filesystem::path path = folder / kAdapterWeightsFile;
  if (!Exists(path) && Exists(folder / "adapter_model.bin")) {
    return DataError({.file = folder.string(),
                      .message = "the adapter's weights are a pickle",
                      .found = "adapter_model.bin",
                      .expected = kAdapterWeightsFile,
                      .hint = "load and save it with PEFT, which writes safetensors"});
  }
  FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWeights> file, SafetensorsWeights::OpenFile(path));
  auto weights = std::make_unique<PeftWeights>(std::move(file), path);
  FTUNE_RETURN_IF_ERROR(weights->StripPrefix());
  adapter.weights = std::move(weights);
  return adapter;
}

absl::Status WritePeftAdapter(const std::filesystem::path& folder, const PeftConfig& config,
                              std::span<const OutputTensor> tensors) {
  FTUNE_RETURN_IF_ERROR(CheckSupported(config, (folder / kAdapterConfigFile).string()));
  FTUNE_RETURN_IF_ERROR(MakeFolder(folder));
  std::vector<OutputTensor> renamed(tensors.begin(), tensors.end());
  for (OutputTensor& tensor : renamed) {
    tensor.name = StrCat(kPrefix, config.of_multimodal ? WithWrapper(tensor.name) : tensor.name);
  }
  FTUNE_RETURN_IF_ERROR(WriteSafetensors(folder / kAdapterWeightsFile, renamed));
  PeftConfig written = config;
  if (config.of_multimodal) {
    if (auto* names = std::get_if<std::vector<std::string>>(&written.lora.target_modules)) {
      for (std::string& name : *names) name = WithWrapper(name);
    }
  }
  return WriteFileAtomic(folder / kAdapterConfigFile, WritePeftConfig(written));
}

}  // namespace ftune
