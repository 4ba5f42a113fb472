// What a recipe says about the names that a dataset uses.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace ftune {

struct RowMapping {
  std::map<std::string, std::string> columns;  // by our name (messages, content, prompt, …): the rows'
  std::map<std::string, std::string> roles;    // by the rows' name: a known role; or the same name again,
                                               // which passes to the chat template as it is
};

// Our names of columns, which RowMapping::columns may have.
const std::vector<std::string>& ColumnNames();
// The names that RowMapping::roles may give.
const std::vector<std::string>& RoleNames();

}  // namespace ftune
