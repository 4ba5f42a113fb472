// A recipe file and command-line overrides, read into a Recipe.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/error.h"
#include "cmd/recipe/node.h"
#include "cmd/recipe/recipe.h"

namespace ftune {

struct LoadedRecipe {
  // Where a key was given last.
  struct Place {
    std::string file;  // the recipe's path, or kCommandLine
    int line = 0;      // 1-based; 0 on the command line
  };

  Recipe recipe;
  std::string file;                     // the recipe's path
  std::map<std::string, Place> places;  // by canonical key; keys that were not given are missing
  std::optional<Recipe> given;          // once `recipe` is resolved: what it was before

  bool GivenOnCommandLine(const std::string& key) const;
  // An error about a key, its file, line and key filled in, for the caller to complete.
  ErrorDetail At(const std::string& key) const;
  // An error of a layer that knows a key by its name alone, with the file and line where the recipe has that
  // key. Any other status as it is.
  absl::Status Placed(absl::Status status) const;
};

// Reads the recipe; then each override `key.sub=value` replaces what it says. Unknown, repeated, wrong,
// missing and contradictory keys are reported all at once (errors.h). Nothing that is `auto` is resolved yet
// (resolve.h), and what this version cannot do is not refused yet (availability.h).
absl::StatusOr<LoadedRecipe> LoadRecipe(const std::string& path,
                                        const std::vector<std::string>& overrides = {});

// The same from text; `file` is the name it goes by.
absl::StatusOr<LoadedRecipe> LoadRecipeText(std::string_view text, const std::string& file,
                                            const std::vector<std::string>& overrides = {});

// The two steps of that. `adjust` may change what was read before it is checked.
absl::StatusOr<Node> ParseRecipe(std::string_view text, const std::string& file);
absl::StatusOr<LoadedRecipe> ReadRecipe(const Node& root, const std::string& file,
                                        const std::vector<std::string>& overrides = {},
                                        const std::function<void(LoadedRecipe&)>& adjust = {});

// The whole recipe as YAML under canonical names; LoadRecipe reads it back equal.
std::string ToYaml(const Recipe& recipe);
// The same as a run writes it: each value that is not as it was given has a comment, "from" and that.
std::string ToYaml(const LoadedRecipe& loaded);
inline constexpr std::string_view kFromComment = "from ";

}  // namespace ftune
