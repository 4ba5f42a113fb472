// The types of a dataset's columns and roles: names of the user's own for names that ftune knows.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cmd/recipe/types.h"

namespace ftune {

using NameMap = std::vector<std::pair<std::string, std::string>>;

// {ours: theirs}; ours is one of data/source's column names.
Type<NameMap> ColumnsType();
// {theirs: ours}; ours is one of data/source's roles, or theirs again.
Type<NameMap> RolesType();

}  // namespace ftune
