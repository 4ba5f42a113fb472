#include "cmd/lr_range_test.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/report/lr_plot.h"

namespace ftune {
namespace {

constexpr double kLowest = 1e-7;
constexpr double kHighest = 1.0;
constexpr double kSmoothing = 0.9;    // weight of the past in the average
constexpr double kExplosion = 4.0;    // times the best smoothed loss
constexpr size_t kFewestPoints = 10;  // before which nothing is concluded

}  // namespace

LrOptions LrRangeTest::Schedule() {
  return {.schedule = LrSchedule::kExponential, .peak = kHighest, .min_ratio = kLowest / kHighest};
}

void LrRangeTest::OnStep(const StepReport& report) {
  average_ = kSmoothing * average_ + (1 - kSmoothing) * report.loss;
  // The average starts at 0: corrected for it, as Adam's moments are.
  const double weight = 1 - std::pow(kSmoothing, static_cast<double>(points_.size() + 1));
  points_.push_back({report.learning_rate, report.loss, average_ / weight});
  progress_.Step(report);
}

bool LrRangeTest::diverged() const {
  if (points_.size() < kFewestPoints) return false;
  const auto best = std::min_element(points_.begin(), points_.end(), [](const LrPoint& a, const LrPoint& b) {
    return a.smoothed < b.smoothed;
  });
  return points_.back().smoothed > kExplosion * best->smoothed;
}

absl::StatusOr<LrRangeResult> LrRangeTest::Result() const {
  if (points_.size() < kFewestPoints) {
    return UserError(ExitCode::kNotFinite, {.key = "--lr-range-test",
                                            .message = "the test ended too early to tell anything",
                                            .found = StrCat(points_.size(), " steps"),
                                            .expected = StrCat("at least ", kFewestPoints),
                                            .hint = "look at the model's weights and at the data"});
  }
  LrRangeResult result = {.points = points_};
  const auto lowest =
      std::min_element(points_.begin(), points_.end(),
                       [](const LrPoint& a, const LrPoint& b) { return a.smoothed < b.smoothed; });
  double steepest = 0.0;
  for (auto point = points_.begin() + 1; point <= lowest; ++point) {
    const double slope =
        (point->smoothed - (point - 1)->smoothed) / std::log(point->rate / (point - 1)->rate);
    if (slope < steepest) {
      steepest = slope;
      result.suggestion = point->rate;
    }
  }
  return result;
}

void PrepareRangeTest(Recipe& recipe) {
  recipe.train.max_steps = LrRangeTest::kSteps;
  // An epoch has at least one step.
  recipe.train.num_epochs = std::max(recipe.train.num_epochs, static_cast<double>(LrRangeTest::kSteps));
  recipe.train.early_stopping_patience = std::nullopt;
  recipe.log.every = 1;
}

absl::StatusOr<CommandResult> ReportRangeTest(const LrRangeResult& result,
                                              const std::filesystem::path& folder, bool json) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (const LrPoint& p : result.points) {
    points.push_back({{"lr", p.rate}, {"loss", p.loss}, {"smoothed", p.smoothed}});
  }
  nlohmann::ordered_json suggestion = nullptr;
  if (result.suggestion) suggestion = *result.suggestion;
  const std::filesystem::path plot = folder / "lr-range-test.svg";
  FTUNE_RETURN_IF_ERROR(WriteFileAtomic(plot, LrPlotSvg(result)));
  FTUNE_RETURN_IF_ERROR(WriteFileAtomic(
      folder / "lr-range-test.json",
      nlohmann::ordered_json({{"suggestion", suggestion}, {"points", points}}).dump(1) + "\n"));
  if (!json) {
    if (result.suggestion) {
      std::printf("optimizer.learning_rate: %.2g  # the loss falls fastest there\n", *result.suggestion);
    } else {
      std::printf("no suggestion: the loss fell at no learning rate\n");
    }
    std::printf("%s\n", plot.c_str());
  }
  return CommandResult{.json = {{"run", folder.string()},
                                {"steps", result.points.size()},
                                {"suggestion", suggestion},
                                {"plot", plot.string()},
                                {"exit", 0}}};
}

}  // namespace ftune
