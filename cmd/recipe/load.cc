#include "cmd/recipe/load.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/strings.h"
#include "cmd/recipe/availability.h"
#include "cmd/recipe/checks.h"
#include "cmd/recipe/errors.h"
#include "cmd/recipe/foreign_keys.h"
#include "cmd/recipe/key_table.h"
#include "cmd/recipe/node.h"
#include "cmd/recipe/source.h"

namespace ftune {
namespace {

// Reads trees of keys into a recipe: the file's first, then those of the overrides, which replace what is
// there.
class Reader {
 public:
  Reader(LoadedRecipe& loaded, std::vector<ErrorDetail>& errors) : loaded_(loaded), errors_(errors) {}

  void Read(const Node& root, const std::string& file) {
    file_ = file;
    seen_.clear();
    ReadSection(root, RecipeKeys().sections().front());
  }
  // Keys whose value could not be read.
  const std::set<std::string>& wrong() const { return wrong_; }

 private:
  Where At(const std::string& key) { return {file_, key, &errors_}; }

  void ReadSection(const Node& map, const RecipeSection& section) {
    for (const Node::Entry& entry : map.entries) {
      const std::string name = JoinKey(section.name, entry.key);
      if (const RecipeKey* key = RecipeKeys().Match(section.name, entry.key)) {
        ReadKey(*key, entry);
      } else if (const RecipeSection* inner = RecipeKeys().FindSection(name);
                 inner != nullptr && !name.empty()) {
        ReadInnerSection(*inner, entry);
      } else {
        Unknown(section.name, entry);
      }
    }
  }

  void ReadKey(const RecipeKey& key, const Node::Entry& entry) {
    const auto [first, is_new] = seen_.emplace(key.name, entry.line);
    if (!is_new) {
      At(key.name).Repeated(entry.line, first->second,
                            "keep one (a key and its other names count as the same)");
      return;
    }
    loaded_.places[key.name] = {file_, entry.line};
    if (key.read(entry.value, At(key.name), loaded_.recipe)) {
      wrong_.erase(key.name);
    } else {
      wrong_.insert(key.name);
    }
  }

  void ReadInnerSection(const RecipeSection& section, const Node::Entry& entry) {
    const auto [first, is_new] = seen_.emplace(section.name, entry.line);
    if (!is_new) {
      At(section.name).Repeated(entry.line, first->second, "put its keys into one section");
    } else if (entry.value.is_map()) {
      section.set_present(loaded_.recipe, true);
      ReadSection(entry.value, section);
    } else if (entry.value.is_null()) {
      if (section.optional) Remove(section);
    } else {
      At(section.name).Wrong(entry.value, "a section of keys", SectionHint(section, entry.value));
    }
  }

  static std::string SectionHint(const RecipeSection& section, const Node& found) {
    if (!found.is_scalar()) return "";
    const size_t colon = found.text.find(':');
    if (!found.quoted && colon != std::string::npos) {
      return StrCat("put a space after the colon: `", found.text.substr(0, colon), ": ",
                    found.text.substr(colon + 1), "`");
    }
    return StrCat("did you mean ", section.name, ".", section.main_key, ": ", found.text, "?");
  }

  void Remove(const RecipeSection& section) {
    section.set_present(loaded_.recipe, false);
    const std::string prefix = section.name + ".";
    std::erase_if(loaded_.places, [&](const auto& place) { return place.first.starts_with(prefix); });
  }

  void Unknown(const std::string& section, const Node::Entry& entry) {
    ErrorDetail error{.message = "unknown key"};
    if (const std::optional<std::string> method = MissingMethod(entry.key)) {
      error.message = StrCat("ftune does not have ", *method);
      error.hint = "remove it";
    } else if (const std::optional<std::string> instead = ForeignKeyHint(entry.key)) {
      error.hint = *instead;
    } else if (const RecipeKey* dotted = RecipeKeys().Find(entry.key); dotted != nullptr && section.empty()) {
      error.hint = StrCat("put ", dotted->last_name(), " into the section ", dotted->section);
    } else if (const std::optional<std::string> near = RecipeKeys().Suggest(section, entry.key)) {
      error.hint = StrCat("did you mean ", *near, "?");
    } else {
      error.hint = "`ftune recipe --reference` lists the keys";
    }
    At(JoinKey(section, entry.key)).Add(entry.line, std::move(error));
  }

  LoadedRecipe& loaded_;
  std::vector<ErrorDetail>& errors_;
  std::string file_;
  std::map<std::string, int> seen_;  // key or section of the tree at hand → line
  std::set<std::string> wrong_;
};

// The value of an override: YAML where it begins as a list, a map or a quoted text, else a plain scalar to
// its end, so that "#", ": " and "*" need no quotes within those of the shell.
absl::StatusOr<Node> ParseOverrideValue(const std::string& text) {
  if (text.empty() || text == "null" || text == "~") return Node();
  if (std::string_view("[{\"'").find(text[0]) == std::string_view::npos) return Node::Plain(text);
  return ParseYaml(text, kCommandLine);
}

// `a.b=value` as the tree {a: {b: value}}, without lines.
std::optional<Node> ParseOverride(const std::string& text, std::vector<ErrorDetail>& errors) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    errors.push_back(
        {.file = kCommandLine, .key = text, .expected = "key=value", .hint = "write section.key=value"});
    return std::nullopt;
  }
  std::string key = text.substr(0, equals);
  const absl::Status readable = CheckRecipeText(text, kCommandLine);
  absl::StatusOr<Node> value = readable.ok() ? ParseOverrideValue(text.substr(equals + 1)) : readable;
  if (!value.ok()) {
    for (ErrorDetail error : RecipeErrorsOf(value.status())) {
      error.line = 0;
      error.key = key;
      errors.push_back(std::move(error));
    }
    return std::nullopt;
  }
  Node root = Node::Map();
  Node* node = &root;
  for (size_t dot; (dot = key.find('.')) != std::string::npos; key.erase(0, dot + 1)) {
    node = &node->At(key.substr(0, dot));
    *node = Node::Map();
  }
  node->At(key) = *std::move(value);
  return root;
}

void ClearLines(Node& node) {
  node.line = 0;
  for (Node& item : node.items) ClearLines(item);
  for (Node::Entry& entry : node.entries) {
    entry.line = 0;
    ClearLines(entry.value);
  }
}

void AddMissing(const LoadedRecipe& loaded, std::vector<ErrorDetail>& errors) {
  for (const RecipeKey& key : RecipeKeys().keys()) {
    if (!key.required || loaded.places.contains(key.name)) continue;
    // Where its whole section is wrong, that has been said.
    const auto is_section = [&](const ErrorDetail& error) { return error.key == key.section; };
    if (std::any_of(errors.begin(), errors.end(), is_section)) continue;
    errors.push_back({.file = loaded.file,
                      .key = key.name,
                      .message = "missing",
                      .expected = key.expected,
                      .hint = StrCat("add `", key.section, ": {", key.last_name(), ": …}`")});
  }
}

// Something other than keys at the top of a file.
ErrorDetail NotASection(const Node& root, const std::string& file) {
  ErrorDetail error{.file = file, .line = root.line, .expected = "a recipe: lines of `key: value`"};
  if (root.is_null()) {
    error.line = 0;
    error.found = "nothing: the file is empty";
    error.hint = "give at least model.path and data.train";
  } else {
    error.found = DescribeNode(root);
    if (root.is_scalar() && root.text.find(':') != std::string::npos)
      error.hint = "put a space after each colon";
    if (root.is_list()) error.hint = "remove the dash before the first key";
  }
  return error;
}

// The entry of a key in a tree of sections, made where it is missing.
Node::Entry& EntryOf(Node& root, std::string_view name) {
  Node* node = &root;
  for (size_t dot; (dot = name.find('.')) != std::string_view::npos; name.remove_prefix(dot + 1)) {
    node = &node->At(name.substr(0, dot));
    node->kind = Node::Kind::kMap;
  }
  node->At(name);
  const auto named = [&](const Node::Entry& entry) { return entry.key == name; };
  return *std::find_if(node->entries.begin(), node->entries.end(), named);
}

Node ToTree(const Recipe& recipe) {
  Node root = Node::Map();
  for (const RecipeKey& key : RecipeKeys().keys()) {
    if (std::optional<Node> value = key.write(recipe)) EntryOf(root, key.name).value = *std::move(value);
  }
  for (const RecipeSection& section : RecipeKeys().sections()) {
    if (!section.present(recipe)) EntryOf(root, section.name).value = Node();
  }
  return root;
}

}  // namespace

bool LoadedRecipe::GivenOnCommandLine(const std::string& key) const {
  const auto place = places.find(key);
  return place != places.end() && place->second.file == kCommandLine;
}

ErrorDetail LoadedRecipe::At(const std::string& key) const {
  const auto place = places.find(key);
  if (place == places.end()) return {.file = file, .key = key};
  return {.file = place->second.file, .line = place->second.line, .key = key};
}

absl::Status LoadedRecipe::Placed(absl::Status status) const {
  const std::optional<ErrorDetail> detail = DetailOf(status);
  if (!detail || !detail->file.empty() || detail->key.empty() || !places.contains(detail->key)) return status;
  ErrorDetail placed = At(detail->key);
  placed.message = detail->message;
  placed.found = detail->found;
  placed.expected = detail->expected;
  placed.hint = detail->hint;
  return UserError(static_cast<ExitCode>(ExitCodeOf(status)), std::move(placed));
}

absl::StatusOr<Node> ParseRecipe(std::string_view text, const std::string& file) {
  const absl::Status readable = CheckRecipeText(text, file);
  absl::StatusOr<Node> root = readable.ok() ? ParseYaml(text, file) : readable;
  if (!root.ok()) return RecipeStatus(RecipeErrorsOf(root.status()));
  if (!root->is_map()) return RecipeStatus({NotASection(*root, file)});
  return root;
}

absl::StatusOr<LoadedRecipe> ReadRecipe(const Node& root, const std::string& file,
                                        const std::vector<std::string>& overrides,
                                        const std::function<void(LoadedRecipe&)>& adjust) {
  LoadedRecipe loaded{.file = file};
  std::vector<ErrorDetail> errors;
  Reader reader(loaded, errors);
  reader.Read(root, file);
  for (const std::string& text_of_override : overrides) {
    std::optional<Node> override_tree = ParseOverride(text_of_override, errors);
    if (!override_tree) continue;
    ClearLines(*override_tree);
    reader.Read(*override_tree, kCommandLine);
  }
  AddMissing(loaded, errors);
  if (adjust) adjust(loaded);
  for (ErrorDetail& error : CheckRecipe(loaded, reader.wrong())) errors.push_back(std::move(error));
  if (!errors.empty()) return RecipeStatus(std::move(errors));
  return loaded;
}

absl::StatusOr<LoadedRecipe> LoadRecipeText(std::string_view text, const std::string& file,
                                            const std::vector<std::string>& overrides) {
  FTUNE_ASSIGN_OR_RETURN(const Node root, ParseRecipe(text, file));
  return ReadRecipe(root, file, overrides);
}

absl::StatusOr<LoadedRecipe> LoadRecipe(const std::string& path, const std::vector<std::string>& overrides) {
  const absl::StatusOr<std::string> text = ReadRecipeText(path);
  if (!text.ok()) return RecipeStatus(RecipeErrorsOf(text.status()));
  return LoadRecipeText(*text, path, overrides);
}

std::string ToYaml(const Recipe& recipe) { return WriteYaml(ToTree(recipe)); }

std::string ToYaml(const LoadedRecipe& loaded) {
  Node root = ToTree(loaded.recipe);
  for (const RecipeKey& key : RecipeKeys().keys()) {
    const std::optional<Node> now = key.write(loaded.recipe);
    const std::optional<Node> given = loaded.given ? key.write(*loaded.given) : std::nullopt;
    if (!now || !given || WriteFlow(*now) == WriteFlow(*given)) continue;
    EntryOf(root, key.name).comment = StrCat(kFromComment, WriteFlow(*given));
  }
  return WriteYaml(root);
}

}  // namespace ftune
