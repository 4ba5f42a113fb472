// A learning-rate range test (Smith, "Cyclical learning rates for training neural networks", 2017, §3.3):
// training at rates that rise exponentially, until the loss explodes.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "cmd/command.h"
#include "cmd/recipe/recipe.h"
#include "cmd/report/progress.h"
#include "engine/optim/lr_schedule.h"
#include "engine/train/reports.h"

namespace ftune {

struct LrPoint {
  double rate = 0.0;
  double loss = 0.0;
  double smoothed = 0.0;
};

struct LrRangeResult {
  std::vector<LrPoint> points;
  // Where the smoothed loss falls fastest over the logarithm of the rate; nothing if it never falls.
  std::optional<double> suggestion;
};

class LrRangeTest final : public TrainObserver {
 public:
  static constexpr int64_t kSteps = 100;

  explicit LrRangeTest(Progress& progress) : progress_(progress) {}

  // 1e-7 to 1 over kSteps.
  static LrOptions Schedule();

  void OnStep(const StepReport& report) override;
  void OnSkip(const SkipReport& report) override { progress_.Skip(report); }
  absl::Status OnEval(const EvalReport&) override { return absl::OkStatus(); }
  bool diverged() const;
  // An error where there were too few steps to tell anything.
  absl::StatusOr<LrRangeResult> Result() const;

 private:
  Progress& progress_;
  std::vector<LrPoint> points_;
  double average_ = 0.0;  // of the losses, exponentially weighted
};

// Sets what a test needs: enough epochs for its steps, every step reported, no evaluation.
void PrepareRangeTest(Recipe& recipe);

// Writes lr-range-test.json and lr-range-test.svg into `folder` and says what was found.
absl::StatusOr<CommandResult> ReportRangeTest(const LrRangeResult& result,
                                              const std::filesystem::path& folder, bool json);

}  // namespace ftune
