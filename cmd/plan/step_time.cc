#include "cmd/plan/step_time.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ftune {
namespace {

const RankRole& SlowestOf(const RolesOfMesh& mesh) {
  return *std::max_element(mesh.roles.begin(), mesh.roles.end(), [](const RankRole& a, const RankRole& b) {
    return a.dry.times->step < b.dry.times->step;
  });
}

// Seconds of forward, backward and weight gradients, each the mean of a stage's microbatches.
class StageMeans {
 public:
  void Add(ActionKind kind, double seconds) {
    switch (kind) {
      case ActionKind::kForward:
        return forward_.Add(seconds);
      case ActionKind::kBackwardWeight:
        return weight_.Add(seconds);
      default:
        return backward_.Add(seconds);
    }
  }
  // A schedule whose backward is whole has all of it in the first half.
  StageCosts costs() const { return {forward_.value(), backward_.value(), weight_.value()}; }

 private:
  struct Mean {
    double sum = 0.0;
    int count = 0;
    void Add(double value) {
      sum += value;
      ++count;
    }
    double value() const { return count == 0 ? 0.0 : sum / count; }
  };
  Mean forward_, backward_, weight_;
};

StageCosts Slower(const StageCosts& a, const StageCosts& b) {
  return {std::max(a.forward, b.forward), std::max(a.backward_input, b.backward_input),
          std::max(a.backward_weight, b.backward_weight)};
}

// Of one that is neither the first nor the last of a step, where there is such.
double MicrobatchSeconds(const DryTimes& times, int microbatches) {
  const size_t each = times.actions.size() / static_cast<size_t>(microbatches);
  const size_t first = microbatches > 1 ? each : 0;
  return std::accumulate(times.actions.begin() + first, times.actions.begin() + first + each, 0.0);
}

// Of a role's stages. Its rank did the compute actions of `actions` in their order.
void AddCosts(const std::vector<Action>& actions, const DryTimes& times, std::vector<StageCosts>& costs) {
  std::vector<StageMeans> means(costs.size());
  size_t next = 0;
  for (const Action& action : actions) {
    if (!IsCompute(action.kind) || next >= times.actions.size()) continue;
    means[action.stage].Add(action.kind, times.actions[next++]);
  }
  for (size_t stage = 0; stage < costs.size(); ++stage) {
    costs[stage] = Slower(costs[stage], means[stage].costs());
  }
}

absl::Status TimePipeline(const Recipe& recipe, const PipelinePlan& plan, const RolesOfMesh& mesh,
                          const PipelinePlan& done, StepTime& time) {
  const MeshShape shape = ToMeshShape(recipe.parallel);
  ScheduleCosts costs = {.stages = std::vector<StageCosts>(plan.shape.stages(), {0, 0, 0})};
  FTUNE_ASSIGN_OR_RETURN(const TimedSchedule lists, TimeSchedule(done, done.source.costs, {}));
  LinkCosts link;
  double beside = 0.0;
  for (const RankRole& role : mesh.roles) {
    const int rank = role.rank / (shape.data * shape.context * shape.tensor);
    AddCosts(lists.schedule.ranks[rank], *role.dry.times, costs.stages);
    link.seconds_per_transfer = std::max(link.seconds_per_transfer, role.dry.times->transfer);
    beside = std::max(beside, role.dry.times->beside_actions);
  }
  FTUNE_ASSIGN_OR_RETURN(time.schedule, TimeSchedule(plan, costs, link));
  const bool waits = recipe.optimizer.max_grad_norm.has_value() || !time.schedule->ahead;
  const double actions = waits ? time.schedule->simulation.makespan : *time.schedule->ahead;
  time.seconds = actions + beside;
  double busy = 0.0;
  for (const RankSimulation& rank : time.schedule->simulation.ranks) busy += rank.busy;
  time.bubble = (actions - busy / shape.pipeline) / time.seconds;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<StepTime>> TimeStep(const Recipe& recipe,
                                                 const std::optional<PipelinePlan>& stages,
                                                 const RolesOfMesh& mesh, const DryStep& done) {
  const auto timed = [](const RankRole& role) { return role.dry.times.has_value(); };
  if (!std::all_of(mesh.roles.begin(), mesh.roles.end(), timed)) return std::nullopt;
  const DryTimes& slowest = *SlowestOf(mesh).dry.times;
  StepTime time = {.seconds = slowest.step, .exposed = slowest.parts.exposed, .parts = slowest.parts};
  for (const RankRole& role : mesh.roles) {
    time.evaluation = std::max(time.evaluation, role.dry.times->evaluation);
  }
  if (stages) {
    FTUNE_RETURN_IF_ERROR(TimePipeline(recipe, *stages, mesh, *done.stages, time));
  } else {
    const int64_t further = *recipe.train.gradient_accumulation_steps - done.microbatches;
    time.seconds += static_cast<double>(further) * MicrobatchSeconds(slowest, done.microbatches);
  }
  return time;
}

}  // namespace ftune
