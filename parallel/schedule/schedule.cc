#include "parallel/schedule/schedule.h"

#include <cstdlib>

#include "base/strings.h"

namespace ftune {
namespace {

std::string_view Letter(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return "F";
    case ActionKind::kBackward:
      return "BW";
    case ActionKind::kBackwardInput:
      return "B";
    case ActionKind::kBackwardWeight:
      return "W";
  }
  std::abort();
}

}  // namespace

std::string ToString(const Action& action) {
  return StrCat(Letter(action.kind), action.stage, ".", action.microbatch);
}

std::vector<Action> SingleStageSchedule(int microbatches) {
  std::vector<Action> actions;
  for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
    actions.push_back({ActionKind::kForward, 0, microbatch});
    actions.push_back({ActionKind::kBackward, 0, microbatch});
  }
  return actions;
}

}  // namespace ftune
