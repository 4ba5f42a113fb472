#include "engine/adapter/lora_targets.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/strings.h"
#include "engine/adapter/module_pattern.h"

namespace ftune {
namespace {

std::string ModuleOf(std::string_view parameter) {
  return std::string(parameter.substr(0, parameter.rfind('.')));
}

std::vector<std::string> SortedUnique(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<std::string> LastComponents(const std::vector<std::string>& modules) {
  std::vector<std::string> last;
  for (const std::string& module : modules) last.emplace_back(LastComponent(module));
  return SortedUnique(std::move(last));
}

// The number of the layer that a module belongs to: behind one of `lists` ("layers"), or, where none are
// given, the first number that has two names before it (peft/tuners/tuners_utils.py,
// check_target_module_exists).
std::optional<int64_t> LayerOf(std::string_view module, const std::vector<std::string>& lists) {
  const auto number_at = [&](size_t begin) -> std::optional<int64_t> {
    const size_t end = module.find('.', begin);
    if (end == std::string_view::npos || end == begin || end - begin > 9) return std::nullopt;
    int64_t number = 0;
    for (const char c : module.substr(begin, end - begin)) {
      if (c < '0' || c > '9') return std::nullopt;
      number = 10 * number + (c - '0');
    }
    return number;
  };
  for (const std::string& list : lists) {
    const std::string name = list + ".";
    for (size_t at = module.find(name); at != std::string_view::npos; at = module.find(name, at + 1)) {
      if (at > 0 && module[at - 1] != '.') continue;
      if (const auto number = number_at(at + name.size())) return number;
    }
  }
  if (!lists.empty()) return std::nullopt;
  size_t dots = 0;
  for (size_t i = 0; i < module.size(); ++i) {
    if (module[i] != '.' || ++dots < 2) continue;
    if (const auto number = number_at(i + 1)) return number;
  }
  return std::nullopt;
}

class Resolver {
 public:
  Resolver(const LoraOptions& options, const ModelConfig& config, const OptionsOrigin& origin)
      : options_(options), origin_(origin), all_(AdaptableModules(config)) {}

  absl::StatusOr<std::vector<LoraModule>> Modules() {
    FTUNE_RETURN_IF_ERROR(SelectTargets());
    FTUNE_RETURN_IF_ERROR(RemoveExcluded());
    if (selected_.empty()) {
      return Error("target_modules", {.message = "no module of the model is left for the adapter",
                                      .hint = "change it, or what excludes modules"});
    }
    std::vector<LoraModule> modules;
    for (const AdaptableModule* module : selected_) modules.push_back({.module = *module});
    std::sort(modules.begin(), modules.end(),
              [](const LoraModule& a, const LoraModule& b) { return a.module.name < b.module.name; });
    FTUNE_ASSIGN_OR_RETURN(const auto ranks,
                           ByPattern("rank_pattern", options_.rank_pattern, options_.rank, modules));
    FTUNE_ASSIGN_OR_RETURN(const auto alphas,
                           ByPattern("alpha_pattern", options_.alpha_pattern, options_.alpha, modules));
    for (size_t i = 0; i < modules.size(); ++i) {
      modules[i].rank = ranks[i];
      modules[i].scale = static_cast<float>(LoraScale(alphas[i], ranks[i], options_.rslora));
    }
    return modules;
  }

  absl::StatusOr<std::vector<std::string>> Saved(const ModelConfig& config,
                                                 const std::vector<LoraModule>& adapted) const {
    const std::vector<ParameterShape> parameters = ModelParameters(config);
    std::vector<std::string> saved;
    for (const std::string& name : options_.modules_to_save) {
      const size_t before = saved.size();
      for (const ParameterShape& p : parameters) {
        if (IsSaved(p.name, {name})) saved.push_back(p.name);
      }
      // A tied head has no parameter of its own.
      if (config.tied_head && config.architecture->names.head.ends_with(name)) {
        for (const AdaptableModule& module : all_) {
          if (module.kind == AdaptableModule::Kind::kEmbedding) saved.push_back(module.name + ".weight");
        }
      }
      if (saved.size() > before) continue;
      std::vector<std::string> known;
      for (const ParameterShape& p : parameters) known.push_back(ModuleOf(p.name));
      return Error("modules_to_save",
                   {.found = StrCat("'", name, "', which no module of the model is called"),
                    .expected = StrCat("names among ", StrJoin(LastComponents(known), ", "))});
    }
    for (const LoraModule& lora : adapted) {
      if (!IsSaved(lora.module.name + ".weight", options_.modules_to_save)) continue;
      return Error("modules_to_save",
                   {.message = StrCat(lora.module.name, " would be trained in full and by the adapter"),
                    .hint = "take it out of modules_to_save or of target_modules"});
    }
    return SortedUnique(std::move(saved));
  }

 private:
  absl::Status Error(const std::string& key, ErrorDetail detail) const {
    detail.file = origin_.file;
    detail.key = origin_.is_recipe ? "adapter." + key : key;
    return origin_.is_recipe ? UsageError(std::move(detail)) : DataError(std::move(detail));
  }

  absl::StatusOr<ModulePattern> Compile(const std::string& key, const std::string& text) const {
    absl::StatusOr<ModulePattern> pattern = ModulePattern::Compile(text);
    if (pattern.ok()) return pattern;
    return Error(key, {.message = std::string(pattern.status().message()),
                       .found = StrCat("'", text, "'"),
                       .expected = "a regular expression of module names"});
  }

  absl::Status NoMatch(const std::string& text) const {
    std::vector<std::string> names;
    for (const AdaptableModule& module : all_) names.push_back(module.name);
    return Error("target_modules",
                 {.found = StrCat("'", text, "', which matches no linear or embedding module of the model"),
                  .expected = StrCat(kAllLinear, ", or names among ", StrJoin(LastComponents(names), ", "))});
  }

  absl::Status SelectTargets() {
    std::set<const AdaptableModule*> selected;
    if (const auto* names = std::get_if<std::vector<std::string>>(&options_.target_modules)) {
      for (const std::string& name : *names) {
        bool used = false;
        for (const AdaptableModule& module : all_) {
          if (!NamesModule(name, module.name)) continue;
          used = true;
          if (InLayers(module.name)) selected.insert(&module);
        }
        // PEFT minds only if nothing at all matches.
        if (!used && origin_.is_recipe) return NoMatch(name);
      }
      if (selected.empty()) return NoMatch(StrJoin(*names, ", "));
    } else {
      const std::string& text = std::get<std::string>(options_.target_modules);
      std::optional<ModulePattern> pattern;
      if (text != kAllLinear) {
        FTUNE_ASSIGN_OR_RETURN(pattern, Compile("target_modules", text));
      }
      for (const AdaptableModule& module : all_) {
        const bool matches =
            pattern ? pattern->MatchesWhole(module.name) : module.kind == AdaptableModule::Kind::kLinear;
        if (matches) selected.insert(&module);
      }
      if (selected.empty()) return NoMatch(text);
    }
    selected_.assign(selected.begin(), selected.end());
    return absl::OkStatus();
  }

  bool InLayers(const std::string& module) const {
    const std::vector<int64_t>& layers = options_.layers_to_transform;
    if (layers.empty()) return true;
    const std::optional<int64_t> layer = LayerOf(module, options_.layers_pattern);
    return layer && std::find(layers.begin(), layers.end(), *layer) != layers.end();
  }

  absl::Status RemoveExcluded() {
    std::function<bool(const std::string&)> excluded;
    if (const auto* names = std::get_if<std::vector<std::string>>(&options_.exclude_modules)) {
      excluded = [names](const std::string& module) {
        return std::any_of(names->begin(), names->end(),
                           [&](const std::string& name) { return NamesModule(name, module); });
      };
    } else {
      FTUNE_ASSIGN_OR_RETURN(const ModulePattern pattern,
                             Compile("exclude_modules", std::get<std::string>(options_.exclude_modules)));
      excluded = [pattern](const std::string& module) { return pattern.MatchesWhole(module); };
    }
    // PEFT never adapts what it saves, or what lies in it: re.match(rf"(^|.*\.){m}($|\..*)", module).
    const auto saved = [&](const std::string& module) {
      const std::string components = StrCat(".", module, ".");
      return std::any_of(options_.modules_to_save.begin(), options_.modules_to_save.end(),
                         [&](const std::string& name) {
                           return components.find(StrCat(".", name, ".")) != std::string::npos;
                         });
    };
    std::erase_if(selected_, [&](const AdaptableModule* module) {
      return excluded(module->name) || saved(module->name);
    });
    return absl::OkStatus();
  }

  // For each module the value of the first pattern that matches its name, or `otherwise`.
  template <class T>
  absl::StatusOr<std::vector<T>> ByPattern(const std::string& key, const PatternValues<T>& values,
                                           T otherwise, const std::vector<LoraModule>& modules) const {
    std::vector<T> chosen(modules.size(), otherwise);
    std::vector<bool> decided(modules.size(), false);
    for (const auto& [text, value] : values) {
      FTUNE_ASSIGN_OR_RETURN(const ModulePattern pattern, Compile(key, text));
      bool used = false;
      for (size_t i = 0; i < modules.size(); ++i) {
        if (!pattern.MatchesEnd(modules[i].module.name)) continue;
        used = true;
        if (!decided[i]) chosen[i] = value;
        decided[i] = true;
      }
      if (used) continue;
      std::vector<std::string> names;
      for (const LoraModule& lora : modules) names.push_back(lora.module.name);
      return Error(key, {.found = StrCat("'", text, "', which matches no module that has an adapter"),
                         .expected = StrCat("a regular expression of the end of names such as ",
                                            names[names.size() / 2], " (",
                                            StrJoin(LastComponents(names), ", "), ")")});
    }
    return chosen;
  }

  const LoraOptions& options_;
  const OptionsOrigin& origin_;
  std::vector<AdaptableModule> all_;
  std::vector<const AdaptableModule*> selected_;
};

}  // namespace

absl::StatusOr<LoraTargets> LoraTargets::Resolve(const LoraOptions& options, const ModelConfig& config,
                                                 const OptionsOrigin& origin) {
  Resolver resolver(options, config, origin);
  LoraTargets targets;
  FTUNE_ASSIGN_OR_RETURN(targets.modules_, resolver.Modules());
  FTUNE_ASSIGN_OR_RETURN(targets.saved_, resolver.Saved(config, targets.modules_));
  return targets;
}

const LoraModule* LoraTargets::Find(std::string_view module) const {
  const auto found =
      std::lower_bound(modules_.begin(), modules_.end(), module,
                       [](const LoraModule& lora, std::string_view name) { return lora.module.name < name; });
  return found != modules_.end() && found->module.name == module ? &*found : nullptr;
}

std::vector<std::string> LoraTargets::suffixes() const {
  std::vector<std::string> names;
  for (const LoraModule& lora : modules_) names.push_back(lora.module.name);
  return LastComponents(names);
}

bool LoraTargets::Saves(std::string_view parameter) const {
  return std::binary_search(saved_.begin(), saved_.end(), parameter, std::less<>());
}

bool LoraTargets::ChangesEnds() const {
  return std::any_of(modules_.begin(), modules_.end(), [](const LoraModule& lora) {
    return lora.module.kind != AdaptableModule::Kind::kLinear;
  });
}

bool IsSaved(std::string_view parameter, const std::vector<std::string>& modules_to_save) {
  // Every module that the parameter lies in: a.b.c.weight is in a.b.c, a.b and a.
  for (size_t end = parameter.rfind('.'); end != std::string_view::npos && end > 0;
       end = parameter.rfind('.', end - 1)) {
    const std::string_view module = parameter.substr(0, end);
    for (const std::string& name : modules_to_save) {
      if (module.ends_with(name)) return true;
    }
  }
  return false;
}

}  // namespace ftune
