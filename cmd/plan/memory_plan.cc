#include "cmd/plan/memory_plan.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/plan/host_memory.h"
#include "cmd/plan/roles.h"
#include "cmd/report/progress.h"
#include "cmd/report/run_log.h"
#include "cmd/train/pipeline_plan.h"
#include "engine/format/model_config.h"
#include "engine/model/tensor_split.h"

namespace ftune {
namespace {

// Of a step of the whole mesh.
int64_t TokensOf(const Recipe& recipe) { return *recipe.train.global_batch_size * recipe.data.sequence_len; }

std::vector<std::string> Cells(const RankRole& role, int64_t capacity) {
  std::vector<std::string> cells = {role.name, StrCat(role.ranks)};
  for (const int64_t bytes : role.dry.peak.bytes) cells.push_back(HumanBytes(bytes));
  cells.push_back(HumanBytes(role.dry.peak.total()));
  cells.push_back(absl::StrFormat(
      "%.1f %%", 100.0 * static_cast<double>(role.dry.peak.total()) / static_cast<double>(capacity)));
  return cells;
}

// The first column to the left, the others to the right.
std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      StrAppend(text, i == 0 ? StrCat(row[i], space) : StrCat("  ", space, row[i]));
    }
    StrAppend(text, "\n");
  }
  return text;
}

std::string Words(const Recipe& recipe, const RolesOfMesh& mesh, int64_t capacity, bool fits) {
  std::string text = absl::StrFormat(
      "%d parameters, of which %d train\n%s; a step is %d tokens, on each rank %d microbatches of %d × %d\n"
      "%.3g floating-point operations a step%s\n\n",
      mesh.parameters, mesh.trainable, ToMeshShape(recipe.parallel).Describe(), TokensOf(recipe),
      *recipe.train.gradient_accumulation_steps, *recipe.train.micro_batch_size, recipe.data.sequence_len,
      mesh.useful_flops + mesh.recomputed_flops,
      mesh.recomputed_flops > 0 ? absl::StrFormat(", of which %.3g are recomputed", mesh.recomputed_flops)
                                : "");
  std::vector<std::vector<std::string>> rows = {{"role", "ranks"}};
  for (int i = 0; i < kCategories; ++i) rows[0].emplace_back(Name(static_cast<Category>(i)));
  rows[0].insert(rows[0].end(), {"peak", "of what there is"});
  for (const RankRole& role : mesh.roles) rows.push_back(Cells(role, capacity));
  StrAppend(text, Table(rows), "\n");
  for (const RankRole& role : mesh.roles) {
    StrAppend(text, role.name, ": the peak is in ", role.dry.moment, "; between steps ",
              HumanBytes(role.dry.ready.total()), "\n");
  }
  StrAppend(text, "each rank has ", HumanBytes(capacity), " of this host's memory: the recipe ",
            fits ? "fits" : "does not fit", "\n");
  return text;
}

nlohmann::ordered_json ToJson(const RolesOfMesh& mesh, int64_t capacity, bool fits) {
  nlohmann::ordered_json roles = nlohmann::ordered_json::array();
  for (const RankRole& role : mesh.roles) {
    roles.push_back({{"role", role.name},
                     {"ranks", role.ranks},
                     {"memory", ToJson(role.dry.peak)},
                     {"peak", role.dry.peak.total()},
                     {"moment", role.dry.moment},
                     {"ready", ToJson(role.dry.ready)},
                     {"step", ToJson(role.dry.step)},
                     {"capacity", capacity},
                     {"fits", role.dry.peak.total() <= capacity}});
  }
  return {{"roles", std::move(roles)},
          {"fits", fits},
          {"parameters", mesh.parameters},
          {"trainable_parameters", mesh.trainable},
          {"step_flops", mesh.useful_flops + mesh.recomputed_flops}};
}

}  // namespace

absl::StatusOr<CommandResult> PlanMemory(LoadedRecipe& loaded, const ModelPlan& model) {
  Recipe& recipe = loaded.recipe;
  FTUNE_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(model.model_path));
  FTUNE_RETURN_IF_ERROR(CheckTensorSplit(config, static_cast<int>(*recipe.parallel.tensor)));
  const int64_t longest = model.options.context ? model.options.context->max_position : config.LongestText();
  recipe.data.sequence_len = std::min(recipe.data.sequence_len, longest);
  std::optional<PipelinePlan> stages;
  if (*recipe.parallel.pipeline > 1) {
    FTUNE_ASSIGN_OR_RETURN(stages, PlanPipeline(recipe, config, model.options));
  }
  FTUNE_ASSIGN_OR_RETURN(const RolesOfMesh mesh, FindRoles(recipe, model, stages));
  const int64_t capacity = HostMemory() / *recipe.launch.ranks_per_host;
  const bool fits = std::all_of(mesh.roles.begin(), mesh.roles.end(),
                                [&](const RankRole& role) { return role.dry.peak.total() <= capacity; });
  CommandResult result = {.json = ToJson(mesh, capacity, fits), .text = Words(recipe, mesh, capacity, fits)};
  if (!fits) result.exit = static_cast<int>(ExitCode::kDoesNotFit);
  result.json["exit"] = result.exit;
  return result;
}

}  // namespace ftune
