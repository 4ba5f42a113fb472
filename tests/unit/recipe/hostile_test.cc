// Recipes that nobody meant to write, and recipes of other tools.
#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <random>
#include <string>

#include "cmd/recipe/errors.h"
#include "cmd/recipe/load.h"

namespace ftune {
namespace {

// What is read is a recipe that reads back equal; what is not is at least one error that says something.
void CheckReadOrRefused(const std::string& text) {
  const absl::StatusOr<LoadedRecipe> loaded = LoadRecipeText(text, "r.yaml");
  if (loaded.ok()) {
    const absl::StatusOr<LoadedRecipe> again = LoadRecipeText(ToYaml(loaded->recipe), "r.yaml");
    REQUIRE(again.ok());
    CHECK(again->recipe == loaded->recipe);
    return;
  }
  const std::vector<ErrorDetail> errors = RecipeErrorsOf(loaded.status());
  REQUIRE_FALSE(errors.empty());
  for (const ErrorDetail& error : errors) {
    CHECK(error.file == "r.yaml");
    CHECK((!error.message.empty() || !error.found.empty()));
    CHECK((!error.expected.empty() || !error.hint.empty() || error.message.starts_with("not valid YAML")));
  }
}

constexpr char kSeedRecipe[] = R"(output_dir: "runs/x"
model: {path: m, rope_scaling: {type: llama3, factor: 8, original_max_position_embeddings: 1}}
adapter: &a
  kind: lora
  lora_dropout: 1e-3
  target_modules: [q_proj, 'v_proj']
data:
  train:
    - {path: a, format: messages, weight: .5}
    - b
  val_set_size: 0.1
  chat_template: |
    {% x %}
train: {max_steps: null, seed: 0}
optimizer: {learning_rate: 2e-5}
checkpoint: {stop_after: 3h55m}
launch: {hosts: [n1, {host: n2, slots: 4}]}
)";

TEST_CASE("recipes with random damage are read or refused") {
  std::mt19937 random(7);
  const std::string seed = kSeedRecipe;
  const std::string alphabet = "\n \t:,[]{}#&*!|>'\"%@`-?<~0e.x\\\xC3\xA9";
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int i = 0; i < 2000; ++i) {
    std::string text = seed;
    for (size_t edits = 1 + below(4); edits > 0; --edits) {
      const size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = alphabet[below(alphabet.size())];
          break;
        case 1:
          text.insert(at, 1, alphabet[below(alphabet.size())]);
          break;
        case 2:
          text.erase(at, 1 + below(10));
          break;
        default:
          text.insert(at, seed.substr(below(seed.size()), below(20)));
      }
    }
    CAPTURE(text);
    CheckReadOrRefused(text);
  }
}

TEST_CASE("recipes of other tools are refused key by key, with what to write instead") {
  const std::filesystem::path root =
      std::filesystem::path(FTUNE_SOURCE_DIR) / "../shared/material/user_configs";
  if (!std::filesystem::exists(root)) {
    std::printf("SKIPPED 1: %s is not there\n", root.c_str());
    return;
  }
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".yaml" && extension != ".yml") continue;
    CAPTURE(entry.path().string());
    const absl::StatusOr<LoadedRecipe> loaded = LoadRecipe(entry.path().string());
    REQUIRE_FALSE(loaded.ok());
    int with_line = 0;
    for (const ErrorDetail& error : RecipeErrorsOf(loaded.status())) {
      CHECK((!error.key.empty() || error.line > 0));  // some are templates of YAML, not YAML
      if (error.line > 0) ++with_line;
      if (error.message == "unknown key") CHECK_FALSE(error.hint.empty());
    }
    CHECK(with_line > 0);
    ++files;
  }
  CHECK(files > 0);
}

}  // namespace
}  // namespace ftune
