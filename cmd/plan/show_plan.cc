#include "cmd/plan/show_plan.h"

#include <string_view>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/plan/explain.h"
#include "cmd/plan/make_plan.h"
#include "cmd/plan/page/html_page.h"
#include "cmd/plan/plan_json.h"
#include "cmd/plan/plan_text.h"
#include "cmd/plan/plan_trace.h"
#include "cmd/plan/timed_schedule.h"
#include "cmd/train/pipeline_plan.h"
#include "engine/format/model_config.h"
#include "parallel/schedule/picture.h"

namespace ftune {
namespace {

void AddExplanation(const PlanResult& plan, CommandResult& result) {
  for (size_t i = 0; i < plan.mesh.roles.size(); ++i) {
    const RankRole& role = plan.mesh.roles[i];
    result.json["roles"][i]["explain"] = ExplainJson(role);
    StrAppend(result.text, "\n", ExplainText(role));
  }
}

// The pipeline's, an SVG element; empty where there is none.
absl::StatusOr<std::string> ScheduleFigure(const Recipe& recipe, const ModelPlan& model,
                                           const std::optional<StepTime>& time) {
  if (*recipe.parallel.pipeline == 1) return "";
  if (time) return ScheduleSvg(time->schedule->schedule, time->schedule->simulation, "s", SvgPlace::kPage);
  FTUNE_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(model.model_path));
  FTUNE_ASSIGN_OR_RETURN(const PipelinePlan plan, PlanPipeline(recipe, config, model.options));
  FTUNE_ASSIGN_OR_RETURN(const TimedSchedule timed,
                         TimeSchedule(plan, plan.source.costs, {.latency = plan.source.costs.transfer}));
  return ScheduleSvg(timed.schedule, timed.simulation, "", SvgPlace::kPage);
}

// Memory must suffice for full packs; time and operations are those of packs as the data's are.
absl::Status TakeStepOf(const TypicalPack& pack, LoadedRecipe loaded, const ModelPlan& model,
                        PlanResult& plan) {
  const PlanOptions options = {.target = plan.target, .depth = PlanDepth::kShort, .typical = pack};
  FTUNE_ASSIGN_OR_RETURN(const PlanResult typical, MakePlan(loaded, model, options));
  plan.time = typical.time;
  plan.used_tokens = typical.used_tokens;
  plan.fill = typical.fill;
  plan.mesh.useful_flops = typical.mesh.useful_flops;
  plan.mesh.recomputed_flops = typical.mesh.recomputed_flops;
  return absl::OkStatus();
}

absl::Status WriteTo(const std::string& path, std::string_view flag, std::string_view text,
                     CommandResult& result) {
  FTUNE_RETURN_IF_ERROR(WriteFileAtomic(path, text));
  result.json[std::string(flag.substr(2))] = path;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CommandResult> ShowPlan(LoadedRecipe& loaded, const ModelPlan& model,
                                       const std::optional<Target>& target, const ShowOptions& options,
                                       const Invocation& invocation) {
  FTUNE_ASSIGN_OR_RETURN(PlanResult plan,
                         MakePlan(loaded, model, {.target = target, .traced = options.traced()}));
  plan.data = LookAtData(loaded, model, invocation);
  if (plan.data->pack) FTUNE_RETURN_IF_ERROR(TakeStepOf(*plan.data->pack, loaded, model, plan));
  plan.disk = FindDiskNeed(loaded.recipe, plan.mesh.saved, plan.data->steps);
  CommandResult result = {.json = PlanJson(plan), .text = PlanText(plan)};
  if (!plan.fits()) result.exit = static_cast<int>(ExitCode::kDoesNotFit);
  if (options.explain) AddExplanation(plan, result);
  if (!options.trace.empty()) {
    FTUNE_RETURN_IF_ERROR(WriteTo(options.trace, kTraceFlag, PlanTrace(plan).dump(), result));
  }
  if (!options.html.empty()) {
    FTUNE_ASSIGN_OR_RETURN(const std::string schedule, ScheduleFigure(loaded.recipe, model, plan.time));
    FTUNE_RETURN_IF_ERROR(
        WriteTo(options.html, kHtmlFlag, PlanPage(plan, StrCat("Plan of ", loaded.file), schedule), result));
  }
  result.json["exit"] = result.exit;
  return result;
}

}  // namespace ftune
