// What a role's memory is at its highest peak: the largest tensors that are alive then.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cmd/plan/roles.h"
#include "cmd/report/table.h"

namespace ftune {

// Of those that are listed for people; the others are a row of their own.
inline constexpr size_t kListedTensors = 15;

// With a head row: memory in all, its share of the peak, how many of what size, category, what made them.
std::vector<TableRow> ExplainRows(const RankRole& role);
std::string ExplainText(const RankRole& role);
// All of them.
nlohmann::ordered_json ExplainJson(const RankRole& role);

}  // namespace ftune
