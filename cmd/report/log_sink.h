// Who else hears what a run's log is told.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"

namespace ftune {

class LogSink {
 public:
  virtual ~LogSink() = default;
  // The log has got `line`, which is `text` there, with its '\n'. Returns at once. An error is the log's,
  // too: training goes on, and the run says so at its end.
  virtual absl::Status Take(const nlohmann::ordered_json& line, const std::string& text) = 0;
};

}  // namespace ftune
