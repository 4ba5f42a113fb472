#include "cmd/plan/draw_schedule.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/plan/timed_schedule.h"
#include "cmd/train/pipeline_plan.h"
#include "engine/format/model_config.h"
#include "parallel/schedule/csv.h"
#include "parallel/schedule/picture.h"

namespace ftune {
namespace {

struct PictureFormat {
  std::string_view extension;
  std::string (*make)(const TimedSchedule& timed);
};

constexpr std::array<PictureFormat, 3> kFormats = {{
    {".svg", [](const TimedSchedule& t) { return ScheduleSvg(t.schedule, t.simulation); }},
    {".csv", [](const TimedSchedule& t) { return FormatScheduleCsv(t.schedule); }},
    {".txt", [](const TimedSchedule& t) { return ScheduleText(t.schedule, t.simulation); }},
}};

absl::StatusOr<const PictureFormat*> FormatOf(const std::string& file) {
  const std::string extension = Lower(std::filesystem::path(file).extension().string());
  for (const PictureFormat& format : kFormats) {
    if (format.extension == extension) return &format;
  }
  return UsageError({.file = "command line",
                     .key = kScheduleFlag,
                     .found = StrCat("'", file, "'"),
                     .expected = "a file named *.svg (a picture), *.csv (to be edited and trained with), or "
                                 "*.txt"});
}

nlohmann::ordered_json ToJson(const PipelinePlan& plan, const TimedSchedule& timed,
                              const std::string& schedule) {
  nlohmann::ordered_json json = {{"schedule", schedule},
                                 {"stages", nlohmann::ordered_json::array()},
                                 {"microbatches", plan.microbatches},
                                 {"time", timed.simulation.makespan},
                                 {"bubble", timed.simulation.bubble_ratio},
                                 {"ranks", nlohmann::ordered_json::array()}};
  if (timed.ahead) json["time_without_barrier"] = *timed.ahead;
  for (int stage = 0; stage < plan.shape.stages(); ++stage) {
    const StageCosts& costs = plan.source.costs.Of(stage);
    json["stages"].push_back({{"stage", stage},
                              {"rank", plan.shape.RankOf(stage)},
                              {"blocks", plan.blocks[stage]},
                              {"forward", costs.forward},
                              {"backward_input", costs.backward_input},
                              {"backward_weight", costs.backward_weight}});
  }
  for (size_t rank = 0; rank < timed.simulation.ranks.size(); ++rank) {
    const RankSimulation& simulated = timed.simulation.ranks[rank];
    json["ranks"].push_back({{"rank", rank},
                             {"busy", simulated.busy},
                             {"bubble", simulated.bubble},
                             {"peak_live", timed.facts.ranks[rank].peak_live}});
  }
  return json;
}

// Columns of a line on standard output; 0: as many as one likes.
int Columns() {
  winsize size = {};
  const bool terminal = isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return terminal ? size.ws_col : 0;
}

std::string Words(const std::vector<std::string>& stages, const TimedSchedule& timed) {
  std::string text;
  for (const std::string& line : stages) StrAppend(text, line, "\n");
  StrAppend(text, "\n", ScheduleText(timed.schedule, timed.simulation, Columns()), "\n");
  StrAppend(text,
            absl::StrFormat("a step takes %.2f units, of which a forward of the mean stage is 1; %.1f %% "
                            "of the ranks' time is bubble\n",
                            timed.simulation.makespan, 100.0 * timed.simulation.bubble_ratio));
  if (timed.ahead) {
    StrAppend(text, absl::StrFormat(
                        "many steps take %.2f units each where ranks do not wait for each other between "
                        "them (optimizer.max_grad_norm: null)\n",
                        *timed.ahead));
  }
  for (size_t rank = 0; rank < timed.simulation.ranks.size(); ++rank) {
    const RankSimulation& simulated = timed.simulation.ranks[rank];
    StrAppend(text,
              absl::StrFormat("pipeline rank %d: busy for %.2f, bubble %.2f, at most %d microbatches of "
                              "its stages alive\n",
                              rank, simulated.busy, simulated.bubble, timed.facts.ranks[rank].peak_live));
  }
  return text;
}

}  // namespace

absl::StatusOr<CommandResult> DrawSchedule(const std::string& file, const LoadedRecipe& loaded,
                                           const ModelPlan& model) {
  FTUNE_ASSIGN_OR_RETURN(const PictureFormat* const format, FormatOf(file));
  const Recipe& recipe = loaded.recipe;
  FTUNE_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(model.model_path));
  FTUNE_ASSIGN_OR_RETURN(const PipelinePlan plan, PlanPipeline(recipe, config, model.options));
  FTUNE_ASSIGN_OR_RETURN(const TimedSchedule timed,
                         TimeSchedule(plan, plan.source.costs, {.latency = plan.source.costs.transfer}));
  FTUNE_RETURN_IF_ERROR(WriteFileAtomic(file, format->make(timed)));
  CommandResult result{.json = ToJson(plan, timed, recipe.parallel.schedule)};
  result.json["file"] = file;
  result.json["exit"] = 0;
  result.text = Words(DescribePipeline(plan, recipe, ToMeshShape(recipe.parallel)), timed);
  return result;
}

}  // namespace ftune
