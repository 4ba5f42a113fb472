#include "cmd/recipe/key_table.h"

#include <algorithm>

#include "base/strings.h"
#include "cmd/recipe/nearest.h"

namespace ftune {

std::string JoinKey(std::string_view section, std::string_view word) {
  return section.empty() ? std::string(word) : StrCat(section, ".", word);
}

void KeyTable::SetRequired(std::string_view name) {
  for (RecipeKey& key : keys_) {
    if (key.name == name) key.required = true;
  }
}

const RecipeKey* KeyTable::Find(std::string_view name) const {
  for (const RecipeKey& key : keys_) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

const RecipeSection* KeyTable::FindSection(std::string_view name) const {
  for (const RecipeSection& section : sections_) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

const RecipeKey* KeyTable::Match(std::string_view section, std::string_view word) const {
  for (const RecipeKey& key : keys_) {
    if (key.section == section && key.last_name() == word) return &key;
  }
  for (const RecipeKey& key : keys_) {
    const bool reachable = key.section == section || (section.empty() && !FindSection(key.section)->nested());
    if (reachable && std::find(key.aliases.begin(), key.aliases.end(), word) != key.aliases.end())
      return &key;
  }
  return nullptr;
}

std::optional<std::string> KeyTable::Suggest(std::string_view section, std::string_view word) const {
  // Of equally near ones the one of the same section, else the first declared.
  std::optional<std::string> nearest;
  std::pair<int, bool> least;
  const auto consider = [&](std::string_view candidate, const std::string& name,
                            std::string_view of_section) {
    if (word.size() > 64) return;  // nothing known is as long
    const std::pair<int, bool> distance(EditDistance(word, candidate), of_section != section);
    if (!IsMisspelling(word, candidate, distance.first) || (nearest && distance >= least)) return;
    nearest = name;
    least = distance;
  };
  for (const RecipeKey& key : keys_) {
    consider(key.last_name(), key.name, key.section);
    for (const std::string& alias : key.aliases) consider(alias, key.name, key.section);
  }
  for (const RecipeSection& known : sections_) {
    const size_t dot = known.name.rfind('.');
    const size_t begin = dot == std::string::npos ? 0 : dot + 1;
    if (!known.name.empty()) {
      consider(std::string_view(known.name).substr(begin), known.name,
               std::string_view(known.name).substr(0, dot == std::string::npos ? 0 : dot));
    }
  }
  return nearest;
}

}  // namespace ftune
