#include "cmd/recipe/paths.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/error.h"
#include "cmd/recipe/key_table.h"
#include "cmd/recipe/load.h"
#include "cmd/recipe/resume.h"

namespace ftune {
namespace {

const std::string kHere = std::filesystem::current_path().string();

Recipe Read(const std::string& text) {
  const absl::StatusOr<LoadedRecipe> loaded = LoadRecipeText(text, "r.yaml");
  INFO(loaded.status().message());
  REQUIRE(loaded.ok());
  return loaded->recipe;
}

TEST_CASE("the keys that may have paths") {
  std::set<std::string> keys;
  for (const RecipeKey& key : RecipeKeys().keys()) {
    if (key.paths) keys.insert(key.name);
  }
  CHECK(keys == std::set<std::string>{"model.path", "model.init_from", "data.train", "data.eval",
                                      "data.chat_template", "data.prepared_path", "parallel.schedule",
                                      "launch.hostfile"});
}

TEST_CASE("relative paths become absolute, and nothing else") {
  const Recipe recipe = WithAbsolutePaths(
      Read("output_dir: runs/a\n"
           "model: {path: ./m//x/, init_from: ../first}\n"
           "data:\n"
           "  train: [a.jsonl, {path: org/name, split: train}, '-', /b.jsonl, parts/*.jsonl]\n"
           "  eval: e.jsonl\n"
           "  chat_template: t.jinja\n"
           "  prepared_path: p\n"
           "parallel: {schedule: S.csv, pipeline: 2}\n"
           "launch: {hostfile: hosts}\n"
           "log: {hook: ./hook}\n"));
  CHECK(*recipe.output_dir == "runs/a");
  CHECK(recipe.model.path == kHere + "/m/x");
  CHECK(*recipe.model.init_from == kHere + "/../first");
  CHECK(recipe.data.train[0].path == kHere + "/a.jsonl");
  CHECK(recipe.data.train[1].path == "org/name");
  CHECK(recipe.data.train[2].path == "-");
  CHECK(recipe.data.train[3].path == "/b.jsonl");
  CHECK(recipe.data.train[4].path == kHere + "/parts/*.jsonl");
  CHECK(recipe.data.eval[0].path == kHere + "/e.jsonl");
  CHECK(*recipe.data.chat_template == kHere + "/t.jinja");
  CHECK(*recipe.data.prepared_path == kHere + "/p");
  CHECK(recipe.parallel.schedule == kHere + "/S.csv");
  CHECK(*recipe.launch.hostfile == kHere + "/hosts");
  CHECK(*recipe.log.hook == "./hook");
  CHECK(WithAbsolutePaths(recipe) == recipe);

  const std::string names = "model: {path: org/model}\ndata: {train: org/data, chat_template: ";
  for (const std::string choice : {"chatml}\n", "auto}\n", "'{{ messages }}'}\n"}) {
    const Recipe named = Read(names + choice);
    CHECK(WithAbsolutePaths(named) == named);
  }
  // What is here goes before what the hub may have.
  const Recipe here = WithAbsolutePaths(Read("model: {path: tests/golden}\ndata: {train: tests/unit}\n"));
  CHECK(here.model.path == kHere + "/tests/golden");
  CHECK(here.data.train[0].path == kHere + "/tests/unit");
}

TEST_CASE("the same content elsewhere") {
  constexpr char kText[] =
      "model: {path: m}\ndata: {train: [{path: a.jsonl, weight: 2}, b.jsonl]}\ntrain: {max_steps: 4}\n";
  const Recipe run = Read(kText);
  const auto refusal = [&](const std::vector<std::string>& overrides,
                           const std::vector<std::string>& by_content) {
    const absl::StatusOr<LoadedRecipe> loaded = LoadRecipeText(kText, "r.yaml", overrides);
    REQUIRE(loaded.ok());
    return std::string(CheckMayResume(*loaded, run, "run/recipe.yaml", by_content).message());
  };
  const std::string moved = "data.train=[{path: c.jsonl, weight: 2}, d.jsonl]";
  CHECK(refusal({"model.path=" + kHere + "/m"}, {}).empty());
  CHECK(refusal({"model.path=n"}, {}).find("found " + kHere + "/n, expected " + kHere + "/m, as in") !=
        std::string::npos);
  CHECK(refusal({"model.path=n"}, {"model.path"}).empty());
  CHECK(refusal({"model.path=n", moved}, {"model.path"}).find("data.train") != std::string::npos);
  CHECK(refusal({"model.path=n", moved}, {"model.path", "data.train"}).empty());
  for (const char* other : {"data.train=[{path: a.jsonl, weight: 3}, b.jsonl]", "data.train=[a.jsonl]",
                            "model.init_from=x", "data.chat_template=t"}) {
    CAPTURE(other);
    CHECK_FALSE(refusal({other}, {"data.train", "model.init_from", "data.chat_template"}).empty());
  }
}

TEST_CASE("what is not there") {
  const auto check = [](const std::string& text) {
    return std::string(CheckInputsAreThere(*LoadRecipeText(text, "r.yaml")).message());
  };
  CHECK(check("model: {path: tests, init_from: nothing}\n"
              "data: {train: [tests/unit, 'tests/*/CMakeLists.txt', tests/CMake*, '-', org/name],\n"
              "  prepared_path: nothing}\n")
            .find("tests/*/CMakeLists.txt") != std::string::npos);
  CHECK(check("model: {path: tests}\ndata: {train: [tests/CMake*, '-', org/name], prepared_path: nothing}\n")
            .empty());
  const std::string both = check("output_dir: a\nmodel: {path: gone}\ndata: {train: gone.jsonl}\n");
  CHECK(both.find("r.yaml:2: error: model.path: found '" + kHere + "/gone', which is not there") !=
        std::string::npos);
  CHECK(both.find("`ftune resume a 'data.train=[{path: PATH}]'`") != std::string::npos);
}

}  // namespace
}  // namespace ftune
