#include "engine/format/peft.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/json_file.h"
#include "base/strings.h"
#include "engine/format/safetensors_weights.h"
#include "engine/format/shard_writer.h"

namespace ftune {
namespace {

using nlohmann::json;

constexpr char kConfigFile[] = "adapter_config.json";
constexpr char kWeightsFile[] = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";

// Fields of peft's LoraConfig (tuners/lora/config.py) that change what the adapter computes or to which
// modules it belongs. Null, an empty list and an empty object always mean "not used".
struct NeutralField {
  const char* key;
  const char* neutral;  // JSON
};
constexpr NeutralField kFeatures[] = {
    {"bias", "\"none\""},          {"fan_in_fan_out", "false"},
    {"lora_bias", "false"},        {"rank_pattern", "null"},
    {"alpha_pattern", "null"},     {"layers_to_transform", "null"},
    {"layers_pattern", "null"},    {"exclude_modules", "null"},
    {"layer_replication", "null"}, {"trainable_token_indices", "null"},
    {"target_parameters", "null"}, {"alora_invocation_tokens", "null"},
    {"use_qalora", "false"},       {"use_bdlora", "null"},
    {"arrow_config", "null"},      {"kasa_config", "null"},
    {"velora_config", "null"},     {"monteclora_config", "null"},
    {"megatron_config", "null"},   {"task_type", "\"CAUSAL_LM\""},
};

bool IsUnused(const json& value) { return value.is_null() || (value.is_structured() && value.empty()); }

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

absl::Status ReadTargets(const json& root, const std::string& file, PeftConfig& config) {
  const auto targets = root.find("target_modules");
  if (targets != root.end() && targets->is_string()) {
    config.target_modules = targets->get<std::string>();
    return absl::OkStatus();
  }
  if (targets == root.end() || !targets->is_array() || targets->empty()) {
    return DataError({.file = file,
                      .key = "target_modules",
                      .found = targets == root.end() ? "nothing" : Excerpt(*targets),
                      .expected = "a list of module names, or a text"});
  }
  FTUNE_ASSIGN_OR_RETURN(config.target_modules, ReadStrings(*targets, "target_modules", file));
  return absl::OkStatus();
}

absl::Status ReadNumbers(const json& root, const std::string& file, PeftConfig& config) {
  FTUNE_ASSIGN_OR_RETURN(config.r, FieldOr<int64_t>(root, "r", 8, file));
  FTUNE_ASSIGN_OR_RETURN(config.alpha, FieldOr<double>(root, "lora_alpha", 8.0, file));
  FTUNE_ASSIGN_OR_RETURN(config.dropout, FieldOr<double>(root, "lora_dropout", 0.0, file));
  if (config.r <= 0 || config.r > INT32_MAX) {
    return DataError({.file = file, .key = "r", .found = StrCat(config.r), .expected = "a positive integer"});
  }
  if (!std::isfinite(config.alpha)) {
    return DataError(
        {.file = file, .key = "lora_alpha", .found = StrCat(config.alpha), .expected = "a number"});
  }
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    return DataError({.file = file,
                      .key = "lora_dropout",
                      .found = StrCat(config.dropout),
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
  for (const NeutralField& feature : kFeatures) {
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
      tensor.name.erase(0, kPrefix.size());  // the same for all: they stay sorted
    }
    return absl::OkStatus();
  }
  const std::vector<SourceTensor>& tensors() const override { return tensors_; }

 private:
  std::string origin() const override { return path_.string(); }

  std::unique_ptr<SafetensorsWeights> file_;
  std::filesystem::path path_;
  std::vector<SourceTensor> tensors_;
};

std::string ConfigText(const PeftConfig& config) {
  json root = {
      {"base_model_name_or_path", config.base_model.empty() ? json(nullptr) : json(config.base_model)},
      {"bias", "none"},
      {"fan_in_fan_out", false},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"lora_dropout", config.dropout},
      {"modules_to_save", nullptr},
      {"peft_type", "LORA"},
      {"r", config.r},
      {"task_type", "CAUSAL_LM"},
      {"use_dora", false},
      {"use_rslora", config.use_rslora}};
  // PEFT's own field is an integer, though it computes with any number.
  const bool whole = config.alpha == std::floor(config.alpha) && std::abs(config.alpha) < 1e15;
  root["lora_alpha"] = whole ? json(static_cast<int64_t>(config.alpha)) : json(config.alpha);
  std::visit([&](const auto& targets) { root["target_modules"] = targets; }, config.target_modules);
  return root.dump(2) + "\n";
}

}  // namespace

absl::StatusOr<PeftConfig> ReadPeftConfig(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kConfigFile;
  const std::string file = path.string();
  if (!Exists(path)) {
    return DataError({.file = folder.string(),
                      .message = StrCat("not an adapter: there is no ", kConfigFile, " in it"),
                      .hint = "give the folder that PEFT or ftune wrote"});
  }
  FTUNE_ASSIGN_OR_RETURN(const json root, ReadJsonFile(path));
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
  FTUNE_RETURN_IF_ERROR(ReadNumbers(root, file, config));
  FTUNE_RETURN_IF_ERROR(ReadTargets(root, file, config));
  FTUNE_ASSIGN_OR_RETURN(config.use_rslora, FieldOr<bool>(root, "use_rslora", false, file));
  FTUNE_ASSIGN_OR_RETURN(config.use_dora, FieldOr<bool>(root, "use_dora", false, file));
  FTUNE_ASSIGN_OR_RETURN(config.base_model, FieldOr<std::string>(root, "base_model_name_or_path", "", file));
  const auto saved = root.find("modules_to_save");
  if (saved != root.end() && saved->is_array()) {
    FTUNE_ASSIGN_OR_RETURN(config.modules_to_save, ReadStrings(*saved, "modules_to_save", file));
  }
  ReadFeatures(root, config);
  return config;
}

absl::Status CheckSupported(const PeftConfig& config, const std::string& file) {
  const auto refuse = [&](const std::string& key, const std::string& found) {
    return DataError({.file = file,
                      .key = key,
                      .message = "this feature of the adapter is not supported",
                      .found = found});
  };
  if (config.use_dora) return refuse("use_dora", "true");
  if (!config.modules_to_save.empty()) {
    return refuse("modules_to_save", StrJoin(config.modules_to_save, ", "));
  }
  if (!config.other_features.empty()) {
    return refuse(config.other_features.front().first, config.other_features.front().second);
  }
  return absl::OkStatus();
}

absl::StatusOr<PeftAdapter> OpenPeftAdapter(const std::filesystem::path& folder) {
  PeftAdapter adapter;
  FTUNE_ASSIGN_OR_RETURN(adapter.config, ReadPeftConfig(folder));
  FTUNE_RETURN_IF_ERROR(CheckSupported(adapter.config, (folder / kConfigFile).string()));
  const std::filesystem::path path = folder / kWeightsFile;
  if (!Exists(path) && Exists(folder / "adapter_model.bin")) {
    return DataError({.file = folder.string(),
                      .message = "the adapter's weights are a pickle",
                      .found = "adapter_model.bin",
                      .expected = kWeightsFile,
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
  FTUNE_RETURN_IF_ERROR(CheckSupported(config, (folder / kConfigFile).string()));
  FTUNE_RETURN_IF_ERROR(MakeFolder(folder));
  std::vector<OutputTensor> renamed(tensors.begin(), tensors.end());
  for (OutputTensor& tensor : renamed) tensor.name.insert(0, kPrefix);
  FTUNE_RETURN_IF_ERROR(WriteSafetensors(folder / kWeightsFile, renamed));
  return WriteFileAtomic(folder / kConfigFile, ConfigText(config));
}

}  // namespace ftune
