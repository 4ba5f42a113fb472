#include "cmd/recipe/availability.h"

#include <algorithm>
#include <vector>

#include "base/strings.h"
#include "cmd/recipe/errors.h"
#include "cmd/recipe/key_table.h"

namespace ftune {
namespace {

// A key that is limited to some values, as YAML; none listed: to its default.
struct Limit {
  std::string key;
  std::vector<std::string> available = {};
  std::string instead = "";
};

// A feature that arrives takes its row along. Keys of absent sections are not looked at.
std::vector<Limit> Limits() {
  return {
      {"model.rope_scaling.rope_type",
       {"default", "linear", "dynamic", "yarn", "llama3"},
       "longrope's factors are found with the model: they stand in its config.json"},
      {"parallel.context", {}, "use parallel.data, parallel.tensor or parallel.pipeline"},
      {"memory.offload",
       {"none", "optimizer"},
       "every step reads all parameters three times; set memory.activation_checkpointing: full, or train a "
       "lora adapter"},
      {"launch.device", {"auto", "cpu"}},
  };
}

struct Method {
  std::string_view name;
  std::vector<std::string_view> keys;  // a trailing * stands for any ending
};

const std::vector<Method>& Methods() {
  static const std::vector<Method> methods = {
      {"preference training or reinforcement learning (DPO, IPO, ORPO, KTO, SimPO, GRPO, PPO)",
       {"rl", "rl_*", "dpo*", "orpo*", "kto*", "simpo*", "grpo*", "ppo*", "ipo*", "cpo*", "pref_*", "trl",
        "reward_model*", "ref_model*"}},
      {"mixtures of experts",
       {"moe*", "num_experts*", "num_local_experts", "expert_parallel*", "router_*", "output_router_logits"}},
      {"fp8 training", {"fp8*"}},
      {"images, audio or video",
       {"image_*", "video_*", "audio_*", "vision_*", "freeze_vision_tower", "media_dir"}},
  };
  return methods;
}

bool Matches(std::string_view word, std::string_view pattern) {
  if (pattern.ends_with('*')) return word.starts_with(pattern.substr(0, pattern.size() - 1));
  return word == pattern;
}

std::string Alternatives(const std::vector<std::string>& values) {
  return values.size() == 1 ? values[0] : StrCat("one of ", StrJoin(values, ", "));
}

}  // namespace

absl::Status CheckAvailable(const LoadedRecipe& loaded) {
  std::vector<ErrorDetail> errors;
  for (const Limit& limit : Limits()) {
    const RecipeKey& key = *RecipeKeys().Find(limit.key);
    const std::optional<Node> node = key.write(loaded.recipe);
    if (!node) continue;
    const std::string value = WriteFlow(*node);
    const std::vector<std::string> available =
        limit.available.empty() ? std::vector{key.default_value} : limit.available;
    if (std::find(available.begin(), available.end(), value) != available.end()) continue;
    ErrorDetail error = loaded.At(limit.key);
    error.message = "this version of ftune does not have this value";
    error.found = DescribeNode(Node::Plain(value));
    error.expected = Alternatives(available);
    error.hint = limit.instead;
    errors.push_back(std::move(error));
  }
  return RecipeStatus(std::move(errors));
}

std::optional<std::string> MissingMethod(std::string_view word) {
  const std::string lower = Lower(word);
  for (const Method& method : Methods()) {
    for (std::string_view pattern : method.keys) {
      if (Matches(lower, pattern)) return std::string(method.name);
    }
  }
  return std::nullopt;
}

}  // namespace ftune
