// log.jsonl of a run: one JSON object a line, appended; floats round-trip.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/descriptor.h"
#include "cmd/prompt.h"
#include "cmd/report/log_sink.h"
#include "engine/checkpoint/checkpoint_saver.h"
#include "engine/train/reports.h"

namespace ftune {

class RunLog {
 public:
  // Adds to a log that is there. A last line that whoever wrote it could not finish is cut off.
  static absl::StatusOr<std::unique_ptr<RunLog>> Open(const std::filesystem::path& path, int attempt);
  // The same of a log that another process has open and writes to: its lines are left as they are.
  static absl::StatusOr<std::unique_ptr<RunLog>> Join(const std::filesystem::path& path, int attempt);

  // Hears all that is written from here on.
  void AddSink(std::unique_ptr<LogSink> sink) { sinks_.push_back(std::move(sink)); }

  // Each adds `event`, `time` (Unix seconds), `step` and `attempt`. Start's step is where training begins.
  void Start(int64_t step, nlohmann::ordered_json facts);
  void Step(const StepReport& report);
  void Skip(const SkipReport& report);
  void Eval(const EvalReport& report, const std::vector<PromptAnswer>& samples);
  void Save(int64_t step, const std::filesystem::path& path);
  void Checkpoint(const SaveReport& report);
  // After a failure, of which `facts` tell: the step is where training goes on.
  void Restart(int64_t step, nlohmann::ordered_json facts);
  // A rank that has fallen behind.
  void Straggler(int64_t step, nlohmann::ordered_json facts);
  void End(int64_t step, nlohmann::ordered_json facts);

  // The first failure to write (a full disk), if any: training goes on, the run says so at its end.
  const absl::Status& status() const { return status_; }

 private:
  static absl::StatusOr<std::unique_ptr<RunLog>> OpenFile(const std::filesystem::path& path, int attempt,
                                                          int flags);
  RunLog(Descriptor file, std::filesystem::path path, int attempt)
      : file_(std::move(file)), path_(std::move(path)), attempt_(attempt) {}
  void Write(std::string_view event, int64_t step, const nlohmann::ordered_json& facts);

  Descriptor file_;
  std::filesystem::path path_;
  int attempt_;
  std::vector<std::unique_ptr<LogSink>> sinks_;
  absl::Status status_;
};

// The attempt that wrote last to a log; 0 where there is none, or no line of one.
absl::StatusOr<int> LastAttemptOf(const std::filesystem::path& path);
// The step that was trained last; none where the log has no line of one.
absl::StatusOr<std::optional<int64_t>> LastStepOf(const std::filesystem::path& path);
// Whether the run has come to its end: the log has nothing after that.
absl::StatusOr<bool> HasEnded(const std::filesystem::path& path);
// The step of the result that was written last; none where the log has no line of one.
absl::StatusOr<std::optional<int64_t>> LastResultOf(const std::filesystem::path& path);

nlohmann::ordered_json ToJson(const MemoryUse& memory);

}  // namespace ftune
