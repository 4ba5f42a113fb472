// ftune checkpoint diff

#include <algorithm>
#include <charconv>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/checkpoint/commands.h"
#include "cmd/checkpoint/find_checkpoint.h"
#include "cmd/recipe/key_table.h"
#include "cmd/recipe/resume.h"
#include "engine/checkpoint/checkpoint_diff.h"

namespace ftune {
namespace {

// A value that is not the same in both, as text.
struct Change {
  std::string key, first, second;
};

absl::StatusOr<int64_t> ParseStep(const std::string& text) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error == std::errc() && end == text.data() + text.size() && step >= 0) return step;
  return UsageError(
      {.file = "command line", .found = text, .expected = "the step of a checkpoint, a number"});
}

absl::StatusOr<CheckpointEntry> Named(const std::string& name, std::optional<int64_t> step) {
  FTUNE_ASSIGN_OR_RETURN(const NamedCheckpoints named, ListNamed(name, step));
  return named.entries.front();
}

std::vector<Change> StateChanges(const Manifest& a, const Manifest& b) {
  const nlohmann::ordered_json first = ToJson(a.state).flatten(), second = ToJson(b.state).flatten();
  std::vector<Change> changes;
  const auto text = [](const nlohmann::ordered_json& state, const std::string& key) {
    return state.contains(key) ? state[key].dump() : std::string("nothing");
  };
  const auto add = [&](const std::string& pointer) {
    const std::string one = text(first, pointer), other = text(second, pointer);
    if (one == other) return;
    std::string key = pointer.substr(1);
    std::replace(key.begin(), key.end(), '/', '.');
    changes.push_back({std::move(key), one, other});
  };
  for (const auto& [pointer, value] : first.items()) add(pointer);
  for (const auto& [pointer, value] : second.items()) {
    if (!first.contains(pointer)) add(pointer);
  }
  return changes;
}

absl::StatusOr<std::vector<Change>> RecipeChanges(const CheckpointEntry& a, const CheckpointEntry& b,
                                                  const Manifest& first, const Manifest& second) {
  std::vector<Change> changes;
  if (first.recipe == second.recipe) return changes;
  FTUNE_ASSIGN_OR_RETURN(const LoadedRecipe one,
                         LoadRunRecipe(first.recipe, (a.folder / kManifestName).string()));
  FTUNE_ASSIGN_OR_RETURN(const LoadedRecipe other,
                         LoadRunRecipe(second.recipe, (b.folder / kManifestName).string()));
  const auto text = [](const RecipeKey& key, const Recipe& recipe) {
    const std::optional<Node> value = key.write(recipe);
    return value ? WriteFlow(*value) : std::string("nothing");
  };
  for (const RecipeKey& key : RecipeKeys().keys()) {
    Change change = {key.name, text(key, one.recipe), text(key, other.recipe)};
    if (change.first != change.second) changes.push_back(std::move(change));
  }
  return changes;
}

nlohmann::ordered_json ToJson(const std::vector<Change>& changes) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Change& change : changes)
    all.push_back({{"key", change.key}, {"a", change.first}, {"b", change.second}});
  return all;
}

nlohmann::ordered_json ToJson(const SavedDifference& tensor) {
  nlohmann::ordered_json json = {{"name", tensor.name}};
  if (!tensor.state.empty()) json["state"] = tensor.state;
  if (!tensor.why_not_compared.empty()) {
    json["not_compared"] = tensor.why_not_compared;
    return json;
  }
  json.update({{"elements", tensor.elements},
               {"different", tensor.different},
               {"not_finite", tensor.not_finite},
               {"max_absolute", tensor.max_absolute},
               {"max_relative", tensor.max_relative}});
  return json;
}

std::string Line(const SavedDifference& tensor) {
  const std::string name = tensor.state.empty() ? tensor.name : StrCat(tensor.name, ": ", tensor.state);
  if (!tensor.why_not_compared.empty()) return StrCat(name, ": ", tensor.why_not_compared, "\n");
  std::string line = absl::StrFormat("%11.4g  %11.4g  %12d of %-12d  %s", tensor.max_absolute,
                                     tensor.max_relative, tensor.different, tensor.elements, name);
  if (tensor.not_finite > 0) StrAppend(line, " (", tensor.not_finite, " not finite in one of the two)");
  return line + "\n";
}

std::string Lines(const std::string& title, const std::vector<Change>& changes) {
  std::string text;
  for (const Change& change : changes) {
    StrAppend(text, title, change.key, ": ", change.first, " | ", change.second, "\n");
  }
  return text;
}

}  // namespace

absl::StatusOr<CommandResult> DiffCheckpoints(const CheckpointOptions& options) {
  const std::vector<std::string>& names = options.names;
  std::optional<int64_t> step_a, step_b;
  if (names.size() == 3) {
    FTUNE_ASSIGN_OR_RETURN(step_a, ParseStep(names[1]));
    FTUNE_ASSIGN_OR_RETURN(step_b, ParseStep(names[2]));
  }
  FTUNE_ASSIGN_OR_RETURN(const CheckpointEntry a, Named(names[0], step_a));
  FTUNE_ASSIGN_OR_RETURN(const CheckpointEntry b, Named(step_b ? names[0] : names[1], step_b));
  FTUNE_ASSIGN_OR_RETURN(CheckpointReader first, CheckpointReader::Open(a.folder));
  FTUNE_ASSIGN_OR_RETURN(CheckpointReader second, CheckpointReader::Open(b.folder));
  FTUNE_ASSIGN_OR_RETURN(const CheckpointDifference difference, CompareCheckpoints(first, second));
  const std::vector<Change> state = StateChanges(first.manifest(), second.manifest());
  FTUNE_ASSIGN_OR_RETURN(const std::vector<Change> recipe,
                         RecipeChanges(a, b, first.manifest(), second.manifest()));

  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const SavedDifference& tensor : difference.tensors) tensors.push_back(ToJson(tensor));
  CommandResult result{.json = {{"a", a.folder.string()},
                                {"b", b.folder.string()},
                                {"equal", difference.equal()},
                                {"tensors", std::move(tensors)},
                                {"only_in_a", difference.only_in_first},
                                {"only_in_b", difference.only_in_second},
                                {"state", ToJson(state)},
                                {"recipe", ToJson(recipe)}}};
  std::string& text = result.text;
  text = StrCat("a: ", a.folder.string(), "\nb: ", b.folder.string(), "\n");
  for (const std::string& name : difference.only_in_first) StrAppend(text, "only in a: ", name, "\n");
  for (const std::string& name : difference.only_in_second) StrAppend(text, "only in b: ", name, "\n");
  StrAppend(text, Lines("state ", state), Lines("recipe ", recipe));
  if (difference.equal()) {
    StrAppend(text, "all ", difference.tensors.size(), " tensors are equal\n");
    return result;
  }
  StrAppend(text, absl::StrFormat("%11s  %11s  %-28s  %s\n", "|a - b|", "relative", "elements that differ",
                                  "tensor"));
  for (const SavedDifference& tensor : difference.tensors) {
    if (tensor.different > 0 || !tensor.why_not_compared.empty()) StrAppend(text, Line(tensor));
  }
  return result;
}

}  // namespace ftune
