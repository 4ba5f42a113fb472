// A run's scalars as an event file of TensorBoard, from the lines of its log.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/descriptor.h"
#include "cmd/report/log_sink.h"

namespace ftune::tensorboard {

class EventFile final : public LogSink {
 public:
  // A new file in `folder`, which is made if need be; of the attempts of a run each has its own, and they
  // sort in the order of the attempts.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(const std::filesystem::path& folder, int attempt);

  absl::Status Take(const nlohmann::ordered_json& line, const std::string& text) override;

 private:
  EventFile(Descriptor file, std::filesystem::path path) : file_(std::move(file)), path_(std::move(path)) {}
  absl::Status Write(const std::string& event);

  Descriptor file_;
  std::filesystem::path path_;
};

}  // namespace ftune::tensorboard
