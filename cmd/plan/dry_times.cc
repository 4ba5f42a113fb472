#include "cmd/plan/dry_times.h"

#include <array>
#include <string_view>

namespace ftune {
namespace {

// What the runner calls the actions of a schedule, in the lane of steps.
constexpr std::array<std::string_view, 3> kActionNames = {"forward ", "backward ", "weight gradients "};

bool IsAction(const TimeSpan& span) {
  if (span.lane != kStepLane) return false;
  for (const std::string_view name : kActionNames) {
    if (span.name.starts_with(name)) return true;
  }
  return false;
}

}  // namespace

DryTimes TimesOf(double step, const std::vector<TimeSpan>& spans, const VirtualTimes& parts,
                 double transfer) {
  DryTimes times = {.step = step, .beside_actions = step, .parts = parts, .transfer = transfer};
  for (const TimeSpan& span : spans) {
    if (!IsAction(span)) continue;
    times.actions.push_back(span.end - span.begin);
    times.beside_actions -= span.end - span.begin;
  }
  return times;
}

}  // namespace ftune
