// What the lines of a run's log.jsonl come to: where training is, whatever was started again meanwhile.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cmd/watch/log_tail.h"
#include "cmd/watch/run_status.h"

namespace ftune {

class TrainingLog {
 public:
  TrainingLog(const std::filesystem::path& path, LogTail::From from) : tail_(path, from) {}

  // Reads what has come since; whether there was anything.
  bool Take();

  const TrainingFigures& figures() const { return known_.figures; }
  // The last attempt whose ranks have begun to train; 0: none.
  int begun_attempt() const { return known_.begun_attempt; }
  // Of the last line; 0: there is none.
  int attempt() const { return known_.attempt; }
  double time() const { return known_.time; }
  // Of the last line, where it is one of the run's end: its exit status.
  std::optional<int> exit() const { return known_.exit; }
  // Times that the run was started again, by whom ever.
  int restarts() const { return known_.restarts; }

 private:
  struct Known {
    TrainingFigures figures;
    int begun_attempt = 0;
    int attempt = 0;
    int restarts = 0;
    double time = 0.0;
    std::optional<int> exit;
    std::vector<SavedPoint> saves;                    // in the order of their steps
    std::vector<std::pair<int64_t, double>> evals;    // step, loss; likewise
    std::vector<std::pair<int64_t, int64_t>> tokens;  // up to which step how many; likewise
    std::deque<std::pair<int64_t, double>> recent;    // the last lines of this attempt: step, time
  };

  void Read(const nlohmann::json& line);
  void Step(const nlohmann::json& line);
  void Save(const nlohmann::json& line);
  // Training goes on from `step`: what came after it is not of the line that begins here.
  void GoBackTo(int64_t step);
  void EstimateTimeLeft(int64_t step);

  LogTail tail_;
  Known known_;
};

}  // namespace ftune
