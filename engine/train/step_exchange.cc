#include "engine/train/step_exchange.h"

#include <utility>

#include "base/error.h"
#include "parallel/comm/gather_records.h"

namespace ftune {

void StepExchange::Start(const StepRecord& own) {
  pending_ = group_->Start(GatherRecords(*group_, own, stream_, table_));
}

absl::StatusOr<std::vector<StepRecord>> StepExchange::Finish() {
  FTUNE_RETURN_IF_ERROR(std::exchange(pending_, {}).Wait());
  std::vector<StepFacts> facts;
  for (const StepRecord& record : table_) facts.push_back(record.facts);
  FTUNE_RETURN_IF_ERROR(CheckSame(shape_, facts, group_->rank()));
  return table_;
}

}  // namespace ftune
