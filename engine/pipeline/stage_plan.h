// Which blocks make up which stage of a pipeline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/config.h"
#include "engine/model/model_part.h"
#include "parallel/schedule/schedule.h"

namespace ftune {

// Multiply-adds of each block's forward for a token of texts of `sequence_len`: its products and, with half
// of the text before it on average, its attention. A trained token's share of the head is the whole of it.
std::vector<double> BlockCosts(const ModelConfig& config, int64_t sequence_len);

// Cuts the blocks into runs of at least one, so that the most expensive one is as cheap as can be, and of
// those cuts the most even one. `stages` is at most their number.
std::vector<size_t> BalanceStages(const std::vector<double>& costs, int stages);

// Blocks of each stage: balanced, or with so many decoder layers each as `layers` says, the embedding in the
// first and the head in the last. An error, about the recipe's parallel.*, where that cannot be.
absl::StatusOr<std::vector<size_t>> PlanStages(const ModelConfig& config, int64_t sequence_len, int stages,
                                               const std::optional<std::vector<int64_t>>& layers);

// Those of one rank of the pipeline.
ModelPart PartOf(const ScheduleShape& shape, int rank, const std::vector<size_t>& blocks_of_stage);

}  // namespace ftune
