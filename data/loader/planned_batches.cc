#include "data/loader/planned_batches.h"

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

absl::StatusOr<std::optional<StepBatches>> PlannedBatches::Next() {
  if (step_ >= plan_.total_steps()) return std::nullopt;
  StepBatches step;
  for (int64_t i = 0; i < plan_.MicroBatches(step_); ++i) {
    step.microbatches.push_back(plan_.MicroBatch(step_, i));
  }
  step.trained_tokens = plan_.TrainedTokens(step_);
  step.epoch = plan_.EpochsAfter(step_);
  step.next = plan_.PositionOf(++step_);
  return step;
}

absl::Status PlannedBatches::Seek(const DataPosition& position) {
  const auto error = [&](const char* key, int64_t found, const std::string& expected) {
    return DataError({.key = StrCat("position.", key),
                      .message = "the saved position is not one of this data",
                      .found = StrCat(found),
                      .expected = expected,
                      .hint = "go on with the same data, data options, seed and batch size"});
  };
  if (position.step < 0 || position.step > plan_.total_steps()) {
    return error("step", position.step, StrCat("0 to ", plan_.total_steps()));
  }
  // The steps of the epochs before must have been as many, or the order of the data is another one now.
  const DataPosition expected = plan_.PositionOf(position.step);
  if (position.epoch != expected.epoch) return error("epoch", position.epoch, StrCat(expected.epoch));
  if (position.batch != expected.batch) return error("batch", position.batch, StrCat(expected.batch));
  step_ = position.step;
  return absl::OkStatus();
}

}  // namespace ftune
