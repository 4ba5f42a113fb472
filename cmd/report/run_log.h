// log.jsonl of a run: one JSON object a line, appended; floats round-trip.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cmd/prompt.h"
#include "engine/checkpoint/checkpoint_saver.h"
#include "engine/train/reports.h"

namespace ftune {

class RunLog {
 public:
  static absl::StatusOr<std::unique_ptr<RunLog>> Open(const std::filesystem::path& path);
  ~RunLog();

  // Each adds `event`, `time` (Unix seconds), `step` and `attempt`.
  void Start(nlohmann::ordered_json facts);
  void Step(const StepReport& report);
  void Skip(const SkipReport& report);
  void Eval(const EvalReport& report, const std::vector<PromptAnswer>& samples);
  void Save(int64_t step, const std::filesystem::path& path);
  void Checkpoint(const SaveReport& report);
  void End(int64_t step, nlohmann::ordered_json facts);

  // The first failure to write (a full disk), if any: training goes on, the run says so at its end.
  const absl::Status& status() const { return status_; }

 private:
  RunLog(std::FILE* file, std::filesystem::path path) : file_(file), path_(std::move(path)) {}
  void Write(std::string_view event, int64_t step, const nlohmann::ordered_json& facts);

  std::FILE* file_;
  std::filesystem::path path_;
  absl::Status status_;
};

nlohmann::ordered_json ToJson(const MemoryUse& memory);

}  // namespace ftune
