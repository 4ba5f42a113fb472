#include "cmd/plan/plan_text.h"

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "cmd/plan/facts_text.h"
#include "cmd/plan/time_text.h"
#include "cmd/report/progress.h"

namespace ftune {
namespace {

TableRow Cells(const RankRole& role, const PlanResult& plan) {
  TableRow cells = {role.name, StrCat(role.ranks)};
  for (const int64_t bytes : role.dry.peak.bytes) cells.push_back(HumanBytes(bytes));
  cells.push_back(HumanBytes(role.dry.peak.total()));
  for (const int64_t bytes : {plan.Runtime(), plan.Fragmentation(role), plan.Needs(role)}) {
    cells.push_back(HumanBytes(bytes));
  }
  cells.push_back(absl::StrFormat(
      "%.1f %%", 100.0 * static_cast<double>(plan.Needs(role)) / static_cast<double>(plan.capacity)));
  return cells;
}

}  // namespace

std::string HeadText(const PlanResult& plan) {
  const RolesOfMesh& mesh = plan.mesh;
  const std::string recomputed =
      mesh.recomputed_flops > 0 ? absl::StrFormat(", of which %.3g are recomputed", mesh.recomputed_flops)
                                : "";
  return absl::StrFormat(
      "%d parameters, of which %d train\n%s; a step is %d tokens, on each rank %d microbatches of %d × %d\n"
      "%.3g floating-point operations a step%s\n",
      mesh.parameters, mesh.trainable, plan.mesh_in_words, plan.step_tokens, plan.microbatches, plan.packs,
      plan.pack_tokens, mesh.useful_flops + mesh.recomputed_flops, recomputed);
}

std::vector<TableRow> MemoryRows(const PlanResult& plan) {
  std::vector<TableRow> rows = {{"role", "ranks"}};
  for (int i = 0; i < kCategories; ++i) rows[0].emplace_back(Name(static_cast<Category>(i)));
  rows[0].insert(rows[0].end(), {"peak", "runtime", "fragmentation", "in all", "of what there is"});
  for (const RankRole& role : plan.mesh.roles) rows.push_back(Cells(role, plan));
  return rows;
}

std::string MomentsText(const PlanResult& plan) {
  std::string text;
  for (const RankRole& role : plan.mesh.roles) {
    StrAppend(text, role.name, ": the peak is in ", role.dry.moment, "; between steps ",
              HumanBytes(role.dry.ready.total()));
    if (role.dry.host_bytes > 0) {
      StrAppend(text, "; its host keeps ", HumanBytes(role.dry.host_bytes), " of what it saves");
    }
    StrAppend(text, "\n");
  }
  return text;
}

std::string VerdictText(const PlanResult& plan) {
  const std::string whose = plan.target ? StrCat(", on ", Describe(*plan.target)) : " of this host's memory";
  return StrCat("each rank has ", HumanBytes(plan.capacity), whose, ": the recipe ",
                plan.fits() ? "fits" : "does not fit", "\n");
}

std::string PlanText(const PlanResult& plan) {
  const std::string unmeasured =
      plan.target
          ? ""
          : "how long a step takes is known once `ftune bench`, for as many threads as a rank has, has "
            "measured this machine\n";
  return StrCat(HeadText(plan), FactsText(plan), TimeText(plan), "\n",
                TableText(MemoryRows(plan), CellsTo::kRight), MomentsText(plan), VerdictText(plan),
                unmeasured);
}

}  // namespace ftune
