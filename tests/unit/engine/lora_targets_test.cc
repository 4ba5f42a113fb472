// Which modules an adapter sits on, against PEFT's rules.
#include "engine/adapter/lora_targets.h"

#include <doctest/doctest.h>

#include "engine/adapter/module_pattern.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/engine/tiny.h"

namespace ftune::testing {
namespace {

using Names = std::vector<std::string>;

absl::Status Refused(const LoraOptions& options, const OptionsOrigin& origin = {}) {
  return LoraTargets::Resolve(options, TinyConfig(), origin).status();
}

LoraTargets Resolved(const LoraOptions& options, const ModelConfig& config = TinyConfig()) {
  auto targets = LoraTargets::Resolve(options, config);
  REQUIRE_MESSAGE(targets.ok(), std::string(targets.status().message()));
  return *std::move(targets);
}

Names ModulesOf(const LoraTargets& targets) {
  Names names;
  for (const LoraModule& lora : targets.modules()) names.push_back(lora.module.name);
  return names;
}

int64_t RankOf(const LoraTargets& targets, const std::string& module) {
  const LoraModule* lora = targets.Find(module);
  REQUIRE(lora != nullptr);
  return lora->rank;
}

TEST_CASE("patterns match as Python's re does") {
  const auto pattern = ModulePattern::Compile("q_proj|layers.1.*");
  REQUIRE(pattern.ok());
  CHECK(pattern->MatchesWhole("q_proj"));
  CHECK_FALSE(pattern->MatchesWhole("a.q_proj"));
  CHECK(pattern->MatchesEnd("a.b.q_proj"));
  CHECK_FALSE(pattern->MatchesEnd("a.b.xq_proj"));  // from a dot on
  CHECK_FALSE(pattern->MatchesEnd("q_proj.a"));
  CHECK(pattern->MatchesEnd("model.layers.1.mlp.up_proj"));
  CHECK(pattern->MatchesEnd("model.layers.11.mlp.up_proj"));  // a dot is any character
  CHECK(pattern->MatchesPart("xq_projx"));
  CHECK_FALSE(ModulePattern::Compile("(").ok());
  CHECK_FALSE(ModulePattern::Compile("a)|(b").ok());
}

TEST_CASE("targets by name, by regular expression, and all linears") {
  const Names all = ModulesOf(Resolved({}));
  CHECK(all.size() == 3 * 7);  // not the head, not the embedding
  CHECK(ModulesOf(Resolved({.target_modules = Names{"q_proj"}})).size() == 3);
  CHECK(ModulesOf(
            Resolved({.target_modules = Names{"layers.1.self_attn.q_proj", "lm_head", "embed_tokens"}})) ==
        Names{"lm_head", "model.embed_tokens", "model.layers.1.self_attn.q_proj"});
  CHECK(ModulesOf(Resolved({.target_modules = std::string(".*\\.[02]\\..*(up|down)_proj")})).size() == 4);
  CHECK(NotSaid(Refused({.target_modules = Names{"q_proj", "proj"}}), "adapter.target_modules", "'proj'",
                "embed_tokens") == "");
  CHECK(NotSaid(Refused({.target_modules = std::string("q_proj")}), "'q_proj'") == "");
  CHECK(NotSaid(Refused({.target_modules = std::string("(")}), "adapter.target_modules", "'('") == "");
  // PEFT minds a name without a module only where no name has one.
  const OptionsOrigin file = {.file = "f.json", .is_recipe = false};
  CHECK(Refused({.target_modules = Names{"q_proj", "w1"}}, file).ok());
  CHECK(NotSaid(Refused({.target_modules = Names{"w1"}}, file), "f.json", " target_modules", "w1") == "");
}

TEST_CASE("layers and exclusions") {
  LoraOptions options = {.target_modules = Names{"q_proj", "down_proj", "lm_head"}};
  options.layers_to_transform = {0, 2};
  CHECK(ModulesOf(Resolved(options)) ==
        Names{"model.layers.0.mlp.down_proj", "model.layers.0.self_attn.q_proj",
              "model.layers.2.mlp.down_proj", "model.layers.2.self_attn.q_proj"});
  options.exclude_modules = Names{"layers.2.mlp.down_proj", "q_proj"};
  CHECK(ModulesOf(Resolved(options)) == Names{"model.layers.0.mlp.down_proj"});
  options.exclude_modules = std::string(".*layers\\.0.*");
  CHECK(ModulesOf(Resolved(options)).size() == 2);
  options.layers_pattern = {"layers"};
  CHECK(ModulesOf(Resolved(options)).size() == 2);
  options.layers_pattern = {"h"};
  CHECK_FALSE(Refused(options).ok());
  options.layers_pattern = {};
  options.exclude_modules = std::string(".*");
  CHECK(NotSaid(Refused(options), "no module") == "");
}

TEST_CASE("ranks and alphas: the first pattern that matches counts") {
  const LoraOptions options = {
      .rank = 4,
      .alpha = 8,
      .rank_pattern = {{"layers.1.self_attn.q_proj", 16}, {"q_proj", 2}, {".*self_attn.*", 9}},
      .alpha_pattern = {{"v_proj", 27}}};
  const LoraTargets targets = Resolved(options);
  CHECK(RankOf(targets, "model.layers.1.self_attn.q_proj") == 16);
  CHECK(RankOf(targets, "model.layers.0.self_attn.q_proj") == 2);
  CHECK(RankOf(targets, "model.layers.0.self_attn.k_proj") == 9);
  CHECK(RankOf(targets, "model.layers.0.mlp.up_proj") == 4);
  CHECK(targets.Find("model.layers.0.self_attn.v_proj")->scale == 3.0f);
  CHECK(targets.Find("model.layers.0.mlp.up_proj")->scale == 2.0f);
  LoraOptions stable = options;
  stable.rslora = true;
  CHECK(Resolved(stable).Find("model.layers.0.self_attn.v_proj")->scale == 9.0f);
  LoraOptions unused = options;
  unused.rank_pattern.push_back({"lm_head", 3});
  CHECK(NotSaid(Refused(unused), "adapter.rank_pattern", "'lm_head'", "no module that has an adapter") == "");
  unused = options;
  unused.alpha_pattern.push_back({"(", 3});
  CHECK(NotSaid(Refused(unused), "adapter.alpha_pattern", "'('") == "");
}

TEST_CASE("modules_to_save: whatever ends so, and never adapted too") {
  LoraOptions options = {.target_modules = Names{"q_proj"},
                         .modules_to_save = {"lm_head", "input_layernorm"}};
  CHECK(Resolved(options).saved() == Names{"lm_head.weight", "model.layers.0.input_layernorm.weight",
                                           "model.layers.1.input_layernorm.weight",
                                           "model.layers.2.input_layernorm.weight"});
  options.modules_to_save = {"norm"};
  CHECK(Resolved(options).saved().size() == 7);  // two a layer, and the last
  options.modules_to_save = {"layers.0.mlp"};
  CHECK(Resolved(options).saved().size() == 3);
  options.target_modules = std::string("all-linear");
  CHECK(Resolved(options).Find("model.layers.0.mlp.up_proj") == nullptr);
  CHECK(Resolved(options).Find("model.layers.1.mlp.up_proj") != nullptr);
  options.modules_to_save = {"embedding"};
  CHECK(NotSaid(Refused(options), "adapter.modules_to_save", "'embedding'", "embed_tokens") == "");
  options.modules_to_save = {"_proj"};  // PEFT saves by ending, but excludes by whole components
  CHECK(NotSaid(Refused(options), "adapter.modules_to_save", "in full and by the adapter") == "");
  // A tied head is the embedding.
  ModelConfig tied = TinyConfig();
  tied.tied_head = true;
  options.modules_to_save = {"lm_head"};
  CHECK(Resolved(options, tied).saved() == Names{"model.embed_tokens.weight"});
}

}  // namespace
}  // namespace ftune::testing
