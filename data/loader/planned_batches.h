// The batches of a plan, in order.
#pragma once

#include "data/loader/batch_source.h"
#include "data/loader/data_plan.h"

namespace ftune {

class PlannedBatches final : public BatchSource {
 public:
  // The plan outlives the source.
  explicit PlannedBatches(const DataPlan& plan) : plan_(plan) {}

  absl::StatusOr<std::optional<StepBatches>> Next() override;
  absl::Status Seek(const DataPosition& position) override;
  DataPosition position() const override { return plan_.PositionOf(step_); }

 private:
  const DataPlan& plan_;
  int64_t step_ = 0;
};

}  // namespace ftune
