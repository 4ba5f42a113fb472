#include "parallel/schedule/place_units.h"

#include <map>
#include <utility>

namespace ftune {
namespace {

using enum ActionKind;

// Positions of a rank's compute actions at which something of a stage begins or ends.
struct Marks {
  std::vector<bool> gather;
  std::vector<bool> release;
  std::vector<bool> reduce;
};

Marks FindMarks(const std::vector<Action>& actions, const UnitOptions& options) {
  Marks marks{std::vector<bool>(actions.size()), std::vector<bool>(actions.size()),
              std::vector<bool>(actions.size())};
  std::map<int, size_t> first_use;
  std::map<int, size_t> last_use;
  std::map<int, size_t> last_gradient;
  size_t before = actions.size();  // the compute action before
  for (size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (!IsCompute(action.kind)) continue;
    if (MakesParameterGradients(action.kind)) {
      last_gradient[action.stage] = i;
      marks.reduce[i] = options.zero >= 2;
    }
    first_use.emplace(action.stage, i);
    last_use[action.stage] = i;
    if (options.zero == 3 && !options.keep_for_step) {
      const bool same = before < i && actions[before].stage == action.stage;
      marks.gather[i] = !same;
      marks.release[i] = true;
      if (same) marks.release[before] = false;
    }
    before = i;
  }
  for (const auto& [stage, i] : last_gradient) marks.reduce[i] = true;
  if (options.zero == 3 && options.keep_for_step) {
    for (const auto& [stage, i] : first_use) marks.gather[i] = true;
    for (const auto& [stage, i] : last_use) marks.release[i] = true;
  }
  return marks;
}

}  // namespace

Schedule PlaceUnits(Schedule schedule, const UnitOptions& options) {
  for (std::vector<Action>& list : schedule.ranks) {
    const std::vector<Action> actions = std::exchange(list, {});
    const Marks marks = FindMarks(actions, options);
    int releasing = -1;  // the stage
    for (size_t i = 0; i < actions.size(); ++i) {
      const Action& action = actions[i];
      if (releasing >= 0 && !IsSend(action.kind)) {
        list.push_back({kRelease, releasing, -1});
        releasing = -1;
      }
      if (marks.gather[i]) list.push_back({kGather, action.stage, -1});
      list.push_back(action);
      if (marks.reduce[i]) list.push_back({kReduce, action.stage, action.microbatch});
      if (marks.release[i]) releasing = action.stage;
    }
    if (releasing >= 0) list.push_back({kRelease, releasing, -1});
  }
  return schedule;
}

}  // namespace ftune
