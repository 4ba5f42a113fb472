// Whether a run that has failed is started again, and when.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "absl/time/time.h"

namespace ftune {

class RestartPolicy {
 public:
  explicit RestartPolicy(int64_t max_restarts) : max_restarts_(max_restarts) {}

  // After a failure in `step`: how long to wait before the run goes on; or why it does not.
  std::variant<absl::Duration, std::string> Next(int64_t step);

  int64_t restarts() const { return restarts_; }

 private:
  // So often in the same step, and it is the step that is to blame.
  static constexpr int kSameStep = 3;

  int64_t max_restarts_;
  int64_t restarts_ = 0;
  int64_t last_step_ = -1;
  int in_last_step_ = 0;  // failures in a row
};

}  // namespace ftune
