// The table of recipe keys. A key is declared once, in keys.cc; parsing, hints, the schema, the reference and
// the resolved recipe are all made from its row.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cmd/recipe/node.h"
#include "cmd/recipe/recipe.h"
#include "cmd/recipe/types.h"

namespace ftune {

struct RecipeKey {
  std::string name;                  // "optimizer.learning_rate"
  std::string section;               // "optimizer", or empty at the top
  std::vector<std::string> aliases;  // within the section, and at the top unless the section is a nested one
  std::string doc;
  std::string expected;
  Json schema;
  std::string default_value;  // as YAML
  bool required = false;
  std::vector<FieldDoc> fields;  // of the records in its value
  OnResume on_resume = OnResume::kFixed;
  // False where the value is wrong; then errors have been added.
  std::function<bool(const Node&, const Where&, Recipe&)> read;
  // Nothing where the key's section is absent.
  std::function<std::optional<Node>(const Recipe&)> write;
  // Visits the paths in its value; null where a value of its type has none.
  std::function<void(Recipe&, const PathVisitor&)> paths;

  std::string_view last_name() const {
    return std::string_view(name).substr(section.empty() ? 0 : section.size() + 1);
  }
};

struct RecipeSection {
  std::string name;  // "adapter", "model.rope_scaling"; empty: the top
  std::string doc;
  std::string main_key;  // the key that a bare value in the section's place is likely meant for
  bool optional = false;
  std::function<bool(const Recipe&)> present;
  std::function<void(Recipe&, bool)> set_present;

  bool nested() const { return name.find('.') != std::string::npos; }
};

class KeyTable {
 public:
  // The struct S of a section within a recipe: absent (null), or made where it is missing.
  template <class S>
  struct Place {
    std::function<const S*(const Recipe&)> find;
    std::function<S&(Recipe&)> make;
    std::function<void(Recipe&)> remove = {};  // of an optional section
  };

  // `on_resume` of the fields that do not say otherwise.
  template <class S>
  void AddSection(std::string name, std::string doc, std::string main_key, OnResume on_resume, Place<S> place,
                  std::vector<Field<S>> fields);
  void SetRequired(std::string_view key);

  // In the order of declaration: the sections' keys stand together.
  const std::vector<RecipeKey>& keys() const { return keys_; }
  const std::vector<RecipeSection>& sections() const { return sections_; }

  const RecipeKey* Find(std::string_view name) const;
  const RecipeSection* FindSection(std::string_view name) const;
  // The key that `word` means within `section`: by its name, or by an alias.
  const RecipeKey* Match(std::string_view section, std::string_view word) const;
  // The name of the key or section that an unknown `word` in `section` may be meant for.
  std::optional<std::string> Suggest(std::string_view section, std::string_view word) const;

 private:
  std::vector<RecipeKey> keys_;
  std::vector<RecipeSection> sections_;
};

const KeyTable& RecipeKeys();

std::string JoinKey(std::string_view section, std::string_view word);

template <class S>
void KeyTable::AddSection(std::string name, std::string doc, std::string main_key, OnResume on_resume,
                          Place<S> place, std::vector<Field<S>> fields) {
  const S defaults;
  for (Field<S>& field : fields) {
    std::function<void(Recipe&, const PathVisitor&)> paths;
    if (field.paths) {
      paths = [field, place](Recipe& recipe, const PathVisitor& visit) {
        if (place.find(recipe) != nullptr) field.paths(place.make(recipe), visit);
      };
    }
    keys_.push_back(
        {.name = JoinKey(name, field.name),
         .section = name,
         .aliases = field.aliases,
         .doc = field.doc,
         .expected = field.expected,
         .schema = field.schema,
         .default_value = WriteFlow(field.write(defaults)),
         .fields = field.fields,
         .on_resume = field.on_resume.value_or(on_resume),
         .read = [field, place](const Node& node, const Where& where,
                                Recipe& recipe) { return field.read(node, where, place.make(recipe)); },
         .write = [field, place](const Recipe& recipe) -> std::optional<Node> {
           const S* section = place.find(recipe);
           return section == nullptr ? std::nullopt : std::optional(field.write(*section));
         },
         .paths = std::move(paths)});
  }
  sections_.push_back({.name = std::move(name),
                       .doc = std::move(doc),
                       .main_key = std::move(main_key),
                       .optional = place.remove != nullptr,
                       .present = [place](const Recipe& recipe) { return place.find(recipe) != nullptr; },
                       .set_present =
                           [place](Recipe& recipe, bool present) {
                             if (present) {
                               place.make(recipe);
                             } else if (place.remove) {
                               place.remove(recipe);
                             }
                           }});
}

}  // namespace ftune
