// TensorBoard's events as protocol buffers: of event.proto and summary.proto what scalars need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ftune::tensorboard {

struct Scalar {
  std::string tag;  // "train/loss": what comes before the slash is a group of charts
  float value = 0.0f;
};

// The first event of a file.
std::string VersionEvent(double wall_time);
// What other files of the folder have of this step and later ones does not count any more.
std::string StartEvent(double wall_time, int64_t step);
std::string ScalarsEvent(double wall_time, int64_t step, const std::vector<Scalar>& scalars);

}  // namespace ftune::tensorboard
