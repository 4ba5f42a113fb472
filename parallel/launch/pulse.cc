#include "parallel/launch/pulse.h"

#include "base/strings.h"
#include "base/timeline.h"

namespace ftune {

std::string DescribePlace(const Pulse& pulse) {
  const std::string call = pulse.call.empty() ? "" : StrCat(", ", pulse.call);
  if (pulse.step == 0) {
    return pulse.phase.empty() ? "" : StrCat("before the first step (", pulse.phase, ")", call);
  }
  std::string text = StrCat("in step ", pulse.step);
  if (!pulse.phase.empty() && pulse.phase != kStepMark) StrAppend(text, ", ", pulse.phase);
  if (pulse.micro_batch >= 0) StrAppend(text, " of microbatch ", pulse.micro_batch);
  return StrCat(text, call);
}

}  // namespace ftune
