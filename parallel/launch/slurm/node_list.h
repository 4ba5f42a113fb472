// Slurm's short forms of lists, as its environment variables have them. `variable` names the one that a text
// is of, for errors, which have exit code 2.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ftune {

// "r[1-2]n[01-03],q" as names, in the order of `scontrol show hostnames`: any number of brackets, numbers as
// wide as the first of their range. What scontrol mends (an open bracket, an empty name) is an error.
absl::StatusOr<std::vector<std::string>> ExpandNodeList(std::string_view list, const std::string& variable);

// A list that expands to these names, in this order.
std::string FoldNodeList(const std::vector<std::string>& names);

// "2(x3),1", tasks or processors per node: 2, 2, 2, 1.
absl::StatusOr<std::vector<int>> ExpandCounts(std::string_view list, const std::string& variable);

}  // namespace ftune
