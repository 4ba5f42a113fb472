// The recipe described: for editors and for people.
#pragma once

#include <string>

#include "cmd/recipe/types.h"

namespace ftune {

// JSON Schema, draft 2020-12, of a recipe. Other names of keys are in it, as in a recipe.
Json RecipeSchema();

// Markdown: each section with its keys, their types, defaults and meanings.
std::string RecipeReference();

}  // namespace ftune
