#include "cmd/adapter_options.h"

#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/recipe/key_table.h"
#include "engine/adapter/lora_targets.h"

namespace ftune {
namespace {

// Keys that an adapter has fixed.
constexpr std::string_view kFixed[] = {
    "adapter.lora_r",        "adapter.lora_alpha",      "adapter.target_modules", "adapter.rank_pattern",
    "adapter.alpha_pattern", "adapter.modules_to_save", "adapter.use_rslora",     "adapter.use_dora"};
constexpr std::string_view kDropout = "adapter.lora_dropout";

// What a recipe can say of an adapter.
AdapterSection ToSection(const LoraOptions& lora) {
  AdapterSection section;
  section.lora_r = lora.rank;
  section.lora_alpha = lora.alpha;
  section.lora_dropout = lora.dropout;
  section.rank_pattern = lora.rank_pattern;
  section.alpha_pattern = lora.alpha_pattern;
  section.modules_to_save = lora.modules_to_save;
  section.use_rslora = lora.rslora;
  section.use_dora = lora.dora;
  using Kind = TargetModules::Kind;
  if (const auto* names = std::get_if<std::vector<std::string>>(&lora.target_modules)) {
    section.target_modules = {.kind = Kind::kNames, .names = *names};
  } else if (const std::string& text = std::get<std::string>(lora.target_modules); text != kAllLinear) {
    section.target_modules = {.kind = Kind::kRegex, .regex = text};
  }
  return section;
}

std::vector<std::string> ModuleNamesOf(const LoraTargets& targets) {
  std::vector<std::string> names;
  for (const LoraModule& lora : targets.modules()) names.push_back(lora.module.name);
  return names;
}

// Other words for the same modules.
absl::StatusOr<bool> SameModules(const LoraOptions& asked, const LoraOptions& has, const ModelConfig& config,
                                 const std::string& file) {
  LoraOptions plain;
  plain.target_modules = asked.target_modules;
  FTUNE_ASSIGN_OR_RETURN(const LoraTargets wanted, LoraTargets::Resolve(plain, config));
  FTUNE_ASSIGN_OR_RETURN(const LoraTargets found,
                         LoraTargets::Resolve(has, config, {.file = file, .is_recipe = false}));
  return ModuleNamesOf(wanted) == ModuleNamesOf(found);
}

}  // namespace

std::optional<DType> ToDType(Quantization quantize) {
  switch (quantize) {
    case Quantization::kNone:
      return std::nullopt;
    case Quantization::kNf4:
      return DType::kNF4;
    case Quantization::kFp4:
      return DType::kFP4;
    case Quantization::kInt8:
      return DType::kInt8;
  }
  return std::nullopt;
}

LoraOptions ToLoraOptions(const AdapterSection& adapter) {
  LoraOptions options;
  options.rank = adapter.lora_r;
  options.alpha = *adapter.lora_alpha;
  options.dropout = adapter.lora_dropout;
  options.rank_pattern = adapter.rank_pattern;
  options.alpha_pattern = adapter.alpha_pattern;
  options.modules_to_save = adapter.modules_to_save;
  options.rslora = adapter.use_rslora;
  options.dora = adapter.use_dora;
  switch (adapter.target_modules.kind) {
    case TargetModules::Kind::kAllLinear:
      options.target_modules = std::string(kAllLinear);
      break;
    case TargetModules::Kind::kNames:
      options.target_modules = adapter.target_modules.names;
      break;
    case TargetModules::Kind::kRegex:
      options.target_modules = adapter.target_modules.regex;
      break;
  }
  return options;
}

absl::StatusOr<LoraOptions> ContinueAdapter(LoadedRecipe& loaded, LoraOptions options,
                                            const std::string& file, const ModelConfig& config) {
  Recipe other = loaded.recipe;
  AdapterSection& has = *other.adapter;
  const AdapterSection& asked = *loaded.recipe.adapter;
  has = ToSection(options);
  // What only the recipe knows.
  has.kind = asked.kind;
  has.quantize = asked.quantize;
  has.loraplus_lr_ratio = asked.loraplus_lr_ratio;
  has.loraplus_lr_embedding = asked.loraplus_lr_embedding;

  for (const std::string_view name : kFixed) {
    const RecipeKey& key = *RecipeKeys().Find(name);
    if (!loaded.places.contains(key.name)) continue;
    const std::string wanted = WriteFlow(*key.write(loaded.recipe)), found = WriteFlow(*key.write(other));
    if (wanted == found) continue;
    if (name == "adapter.target_modules") {
      FTUNE_ASSIGN_OR_RETURN(const bool same, SameModules(ToLoraOptions(asked), options, config, file));
      if (same) continue;
    }
    ErrorDetail detail = loaded.At(key.name);
    detail.found = wanted;
    detail.expected = StrCat(found, ", as the adapter in model.init_from has it (", file, ")");
    detail.hint = "remove the key to go on with the adapter as it is";
    return UsageError(detail);
  }
  if (loaded.places.contains(std::string(kDropout))) has.lora_dropout = options.dropout = asked.lora_dropout;
  loaded.recipe.adapter = has;
  return options;
}

}  // namespace ftune
