#include "parallel/launch/restart_policy.h"

#include <algorithm>

#include "base/strings.h"

namespace ftune {
namespace {

constexpr absl::Duration kFirstWait = absl::Seconds(1);
constexpr absl::Duration kLongestWait = absl::Minutes(1);
constexpr int64_t kMostDoubled = 6;

}  // namespace

std::variant<absl::Duration, std::string> RestartPolicy::Next(int64_t step) {
  in_last_step_ = step == last_step_ ? in_last_step_ + 1 : 1;
  last_step_ = step;
  if (max_restarts_ == 0) return "launch.max_restarts is 0";
  if (restarts_ >= max_restarts_) return StrCat("after ", restarts_, " restarts (launch.max_restarts)");
  if (in_last_step_ >= kSameStep) {
    return StrCat("it has failed ", in_last_step_, " times in a row in step ", step + 1,
                  ": another restart would end there too");
  }
  const absl::Duration wait = kFirstWait * (int64_t{1} << std::min(restarts_, kMostDoubled));
  ++restarts_;
  return std::min(wait, kLongestWait);
}

}  // namespace ftune
