#include "cmd/plan/explain.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "cmd/report/progress.h"

namespace ftune {
namespace {

std::string Share(int64_t bytes, const RankRole& role) {
  return absl::StrFormat("%.1f %%",
                         100.0 * static_cast<double>(bytes) / static_cast<double>(role.dry.peak.total()));
}

}  // namespace

std::vector<TableRow> ExplainRows(const RankRole& role) {
  std::vector<TableRow> rows = {{"memory", "of the peak", "tensors", "category", "made in, or part of"}};
  const std::vector<LiveTensors>& alive = role.dry.trace.at_peak;
  const size_t listed = std::min(alive.size(), kListedTensors);
  for (size_t i = 0; i < listed; ++i) {
    const LiveTensors& tensors = alive[i];
    rows.push_back({HumanBytes(tensors.total()), Share(tensors.total(), role),
                    StrCat(tensors.count, " × ", HumanBytes(tensors.bytes)),
                    std::string(Name(tensors.category)), tensors.made_in});
  }
  int64_t count = 0, bytes = 0;
  for (size_t i = listed; i < alive.size(); ++i) {
    count += alive[i].count;
    bytes += alive[i].total();
  }
  if (count > 0) rows.push_back({HumanBytes(bytes), Share(bytes, role), StrCat(count, " others"), "", ""});
  return rows;
}

std::string ExplainText(const RankRole& role) {
  return StrCat(role.name, ": alive at the peak, in ", role.dry.moment, "\n",
                TableText(ExplainRows(role), CellsTo::kLeft));
}

nlohmann::ordered_json ExplainJson(const RankRole& role) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const LiveTensors& alive : role.dry.trace.at_peak) {
    tensors.push_back({{"category", Name(alive.category)},
                       {"bytes", alive.bytes},
                       {"count", alive.count},
                       {"total", alive.total()},
                       {"made_in", alive.made_in}});
  }
  return tensors;
}

}  // namespace ftune
