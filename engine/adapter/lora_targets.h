// Which modules of a model an adapter sits on, and with which rank and scale.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/adapter/lora_options.h"
#include "engine/model/modules.h"

namespace ftune {

struct LoraModule {
  AdaptableModule module;
  int64_t rank = 0;
  float scale = 0.0f;  // of B A
};

// Where options stand, for errors about them.
struct OptionsOrigin {
  std::string file;       // empty where it is not known
  bool is_recipe = true;  // keys are those of a recipe; else of an adapter_config.json
};

class LoraTargets {
 public:
  // Errors: a pattern that is no regular expression; one that matches no adapted module; names in
  // modules_to_save that no module has; a module that is both adapted and saved; in a recipe, a target that
  // matches nothing.
  static absl::StatusOr<LoraTargets> Resolve(const LoraOptions& options, const ModelConfig& config,
                                             const OptionsOrigin& origin = {});

  const LoraModule* Find(std::string_view module) const;               // nullptr: not adapted
  const std::vector<LoraModule>& modules() const { return modules_; }  // sorted by name
  // Last components of the matched modules ("q_proj"), sorted: what adapter_config.json lists for all-linear.
  std::vector<std::string> suffixes() const;
  bool Saves(std::string_view parameter) const;                     // in modules_to_save
  const std::vector<std::string>& saved() const { return saved_; }  // names of parameters, sorted
  // The embedding, or the head, is no longer what it was.
  bool ChangesEnds() const;

 private:
  std::vector<LoraModule> modules_;
  std::vector<std::string> saved_;
};

// Whether a parameter belongs to modules_to_save: as PEFT, that of every module whose name ends with one of
// them ("norm" is input_layernorm too).
bool IsSaved(std::string_view parameter, const std::vector<std::string>& modules_to_save);

}  // namespace ftune
