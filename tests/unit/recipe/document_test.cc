#include "cmd/recipe/document.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "cmd/recipe/key_table.h"
#include "cmd/recipe/load.h"

namespace ftune {
namespace {

TEST_CASE("the table: names are unique and reachable, every key is documented") {
  std::set<std::string> names;
  for (const RecipeKey& key : RecipeKeys().keys()) {
    CAPTURE(key.name);
    CHECK(names.insert(key.name).second);
    CHECK(RecipeKeys().Match(key.section, key.last_name()) == &key);
    for (const std::string& alias : key.aliases) {
      CHECK(RecipeKeys().Match(key.section, alias) == &key);
      CHECK(names.insert(key.section + "." + alias).second);
      if (key.section.find('.') == std::string::npos) {
        CHECK(RecipeKeys().Match("", alias) == &key);
        CHECK(RecipeKeys().FindSection(alias) == nullptr);
      }
    }
    CHECK(key.doc.ends_with('.'));
    CHECK_FALSE(key.expected.empty());
    CHECK_FALSE(key.schema.empty());
  }
  for (const RecipeSection& section : RecipeKeys().sections()) {
    CAPTURE(section.name);
    if (!section.name.empty()) {
      CHECK(RecipeKeys().Match(section.name, section.main_key) != nullptr);
    }
  }
}

TEST_CASE("every default reads back") {
  for (const RecipeKey& key : RecipeKeys().keys()) {
    if (key.required) continue;
    CAPTURE(key.name);
    const absl::StatusOr<Node> node = ParseYaml(key.default_value, "f");
    REQUIRE(node.ok());
    std::vector<ErrorDetail> errors;
    Recipe recipe;
    CHECK(key.read(*node, {"f", key.name, &errors}, recipe));
    CHECK(errors.empty());
  }
}

TEST_CASE("schema") {
  const Json schema = RecipeSchema();
  CHECK(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  CHECK(schema["additionalProperties"] == false);
  CHECK(schema["allOf"].size() == 2);
  const Json& rate = schema["properties"]["optimizer"]["properties"]["learning_rate"];
  CHECK(rate["default"] == "auto");
  CHECK(rate["anyOf"][0]["const"] == "auto");
  CHECK(rate["anyOf"][1]["minimum"] == 0);
  CHECK(schema["properties"]["base_model"]["description"] == "The same as model.path.");
  CHECK(schema["properties"]["adapter"]["type"] == Json::array({"object", "null"}));
  CHECK(schema["properties"]["launch"]["properties"]["slurm"]["properties"]["nodes"]["default"] == 1);
  CHECK(schema["properties"]["model"]["properties"]["rope_scaling"]["additionalProperties"] == false);
  CHECK_FALSE(schema["properties"].contains("type"));
  CHECK(schema["properties"]["data"]["properties"]["packing"]["default"] == true);
}

TEST_CASE("reference") {
  const std::string text = RecipeReference();
  for (const RecipeKey& key : RecipeKeys().keys()) {
    CAPTURE(key.name);
    CHECK(text.find("| `" + key.name + "` | ") != std::string::npos);
  }
  CHECK(text.find("| `model.path` | a path | required | ") != std::string::npos);
  CHECK(text.find("| `train.seed` | a whole number of 0 or more | `42` | ") != std::string::npos);
  CHECK(text.find("[`model_name_or_path`, `base_model`]") != std::string::npos);
  CHECK(text.find("| `data.train[].format` | auto, or one of messages, ") != std::string::npos);
  CHECK(text.find("\n## launch.slurm\n") != std::string::npos);
}

}  // namespace
}  // namespace ftune
