#include "cmd/recipe/paths.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "cmd/recipe/errors.h"
#include "cmd/recipe/key_table.h"
#include "data/file/glob.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

void VisitPaths(Recipe& recipe, const PathVisitor& visit) {
  for (const RecipeKey& key : RecipeKeys().keys()) {
    if (key.paths) key.paths(recipe, visit);
  }
}

bool IsThere(const std::string& path) {
  if (Exists(path)) return true;
  if (!IsPattern(path)) return false;
  const auto files = MatchFiles(path);
  return !files.ok() || !files->empty();  // reading it says what is wrong with it
}

ErrorDetail Gone(const LoadedRecipe& loaded, const RecipeKey& key, const std::string& path) {
  ErrorDetail error = loaded.At(key.name);
  error.found = StrCat("'", AbsolutePath(path), "', which is not there");
  error.expected = "what the run began with";
  const std::string value = key.fields.empty() ? "PATH" : "[{path: PATH}]";
  error.hint = StrCat("bring it back, or say where it is now: `ftune resume ",
                      loaded.recipe.output_dir.value_or("RUN"), " '", key.name, "=", value, "'`");
  return error;
}

// A pattern that matches the text alone.
std::string AsPattern(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    const std::string one(1, c);
    pattern += IsPattern(one) ? StrCat("[", one, "]") : one;
  }
  return pattern;
}

}  // namespace

std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const fs::path relative = path;
  fs::path folder = relative.is_absolute() ? fs::path() : fs::current_path(error);
  if (error) return path;
  if (IsPattern(path) && !Exists(path)) folder = AsPattern(folder.string());
  fs::path clean;
  for (const fs::path& part : folder / relative) {
    if (!part.empty() && part != ".") clean /= part;
  }
  return clean.string();
}

Recipe WithAbsolutePaths(Recipe recipe) {
  VisitPaths(recipe, [](std::string& path, PathUse use) {
    if (use != PathUse::kNone) path = AbsolutePath(path);
  });
  return recipe;
}

LoadedRecipe WithAbsolutePaths(LoadedRecipe loaded) {
  loaded.recipe = WithAbsolutePaths(std::move(loaded.recipe));
  if (loaded.given) loaded.given = WithAbsolutePaths(*std::move(loaded.given));
  return loaded;
}

Recipe WithoutPlaces(Recipe recipe) {
  VisitPaths(recipe, [](std::string& path, PathUse) { path.clear(); });
  recipe.model.revision.reset();
  for (std::vector<DataSource>* sources : {&recipe.data.train, &recipe.data.eval}) {
    for (DataSource& source : *sources) {
      source.name.reset();
      source.split.reset();
      source.revision.reset();
    }
  }
  return recipe;
}

absl::Status CheckInputsAreThere(const LoadedRecipe& loaded) {
  std::vector<ErrorDetail> errors;
  Recipe recipe = loaded.recipe;
  for (const RecipeKey& key : RecipeKeys().keys()) {
    if (!key.paths || key.name == "model.init_from") continue;
    key.paths(recipe, [&](std::string& path, PathUse use) {
      if (use == PathUse::kInput && !IsThere(path)) errors.push_back(Gone(loaded, key, path));
    });
  }
  return RecipeStatus(std::move(errors));
}

absl::Status InputIsGone(const LoadedRecipe& loaded, const std::string& key, const std::string& path,
                         const std::string& why) {
  ErrorDetail error = Gone(loaded, *RecipeKeys().Find(key), path);
  error.message = why;
  return RecipeStatus({std::move(error)});
}

}  // namespace ftune
