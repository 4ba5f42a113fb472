#include "cmd/recipe/document.h"

#include <algorithm>

#include "absl/strings/str_replace.h"
#include "base/strings.h"
#include "cmd/recipe/key_table.h"

namespace ftune {
namespace {

// The schema object of a section within the whole schema, made where it is missing.
Json& SchemaOf(Json& root, std::string_view section) {
  Json* object = &root;
  while (!section.empty()) {
    const size_t dot = section.find('.');
    object = &(*object)["properties"][std::string(section.substr(0, dot))];
    section.remove_prefix(dot == std::string_view::npos ? section.size() : dot + 1);
  }
  return *object;
}

// A default as JSON: a word that is not JSON is a string.
Json JsonOf(const std::string& yaml) {
  Json value = Json::parse(yaml, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? Json(yaml) : value;
}

// A key that must be given, by any of its names, in its section or at the top.
Json Requirement(const RecipeKey& key) {
  Json in_section = {Json{{"required", {key.last_name()}}}};
  Json at_top = Json::array();
  for (const std::string& alias : key.aliases) {
    in_section.push_back(Json{{"required", {alias}}});
    at_top.push_back(Json{{"required", {alias}}});
  }
  at_top.push_back(
      Json{{"required", {key.section}}, {"properties", Json{{key.section, Json{{"anyOf", in_section}}}}}});
  return Json{{"anyOf", at_top}};
}

// What becomes of a key when a run goes on.
std::string_view OnResumption(const RecipeKey& key) {
  return key.on_resume == OnResume::kFree ? "may change" : "stays";
}

void AddProperty(Json& root, const RecipeKey& key) {
  Json& section = SchemaOf(root, key.section);
  Json property = key.schema;
  property["description"] = key.doc;
  if (!key.required) property["default"] = JsonOf(key.default_value);
  property["x-resume"] = std::string(OnResumption(key));
  section["properties"][std::string(key.last_name())] = std::move(property);
  Json other = key.schema;
  other["description"] = StrCat("The same as ", key.name, ".");
  for (const std::string& alias : key.aliases) section["properties"][alias] = other;
  // `section` may move when its neighbours grow: it is not used any more.
  if (key.section.find('.') != std::string::npos) return;
  for (const std::string& alias : key.aliases) root["properties"][alias] = other;
}

// A text in a cell of a Markdown table.
std::string Cell(const std::string& text) { return absl::StrReplaceAll(text, {{"|", "\\|"}}); }

std::string Row(std::string_view name, std::string_view expected, std::string_view default_value,
                std::string_view on_resumption, std::string_view doc) {
  const std::string shown = default_value.empty() ? "required" : StrCat("`", default_value, "`");
  return StrCat("| `", name, "` | ", Cell(std::string(expected)), " | ", Cell(shown), " | ", on_resumption,
                " | ", Cell(std::string(doc)), " |\n");
}

}  // namespace

Json RecipeSchema() {
  Json root = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "ftune recipe"}};
  for (const RecipeSection& section : RecipeKeys().sections()) {
    Json& object = SchemaOf(root, section.name);
    if (!section.doc.empty()) object["description"] = section.doc;
    object["type"] = section.optional ? Json{"object", "null"} : Json("object");
    object["properties"] = Json::object();
    object["additionalProperties"] = false;
  }
  for (const RecipeKey& key : RecipeKeys().keys()) {
    AddProperty(root, key);
    if (key.required) root["allOf"].push_back(Requirement(key));
  }
  return root;
}

std::string RecipeReference() {
  std::string text =
      "# Keys of a recipe\n\n"
      "On the command line `section.key=value` after the recipe replaces a value. Names in [brackets] are "
      "accepted too, in the section and at the top. `ftune resume` refuses another value of a key that "
      "stays.\n";
  for (const RecipeSection& section : RecipeKeys().sections()) {
    if (section.name.empty()) {
      text += "\n";
    } else {
      StrAppend(text, "\n## ", section.name, "\n\n", section.doc, "\n\n");
    }
    text += "| key | value | default | resume | meaning |\n|---|---|---|---|---|\n";
    for (const RecipeKey& key : RecipeKeys().keys()) {
      if (key.section != section.name) continue;
      const std::string aliases =
          key.aliases.empty() ? "" : StrCat(" [`", StrJoin(key.aliases, "`, `"), "`]");
      text += Row(key.name, key.expected, key.required ? "" : key.default_value, OnResumption(key),
                  key.doc + aliases);
      for (const FieldDoc& field : key.fields) {
        text += Row(StrCat(key.name, "[].", field.name), field.expected, field.default_value,
                    OnResumption(key), field.doc);
      }
    }
  }
  return text;
}

}  // namespace ftune
