#include "engine/pipeline/stage_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

std::string Joined(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) StrAppend(text, text.empty() ? "" : ", ", number);
  return StrCat("[", text, "]");
}

absl::StatusOr<std::vector<size_t>> StagesByHand(const ModelConfig& config, int stages,
                                                 const std::vector<int64_t>& layers) {
  const auto refuse = [&](std::string expected) {
    return UsageError({.key = "parallel.stages",
                       .found = Joined(layers),
                       .expected = std::move(expected),
                       .hint = "auto balances them"});
  };
  if (std::ssize(layers) != stages) {
    return refuse(StrCat(stages, " numbers, one for each stage (parallel.pipeline times virtual_stages)"));
  }
  if (std::accumulate(layers.begin(), layers.end(), int64_t{0}) != config.num_layers) {
    return refuse(StrCat("numbers that add up to the model's ", config.num_layers, " layers"));
  }
  std::vector<size_t> blocks(layers.begin(), layers.end());
  ++blocks.front();
  ++blocks.back();
  const auto empty = std::find(blocks.begin(), blocks.end(), size_t{0});
  if (empty != blocks.end()) {
    return refuse(
        "at least one layer in each stage but the first, which has the embedding, and the last, "
        "which has the head");
  }
  return blocks;
}

}  // namespace

std::vector<double> BlockCosts(const ModelConfig& config, int64_t sequence_len) {
  const auto hidden = static_cast<double>(config.hidden_size);
  const auto queries = static_cast<double>(config.num_heads * config.head_dim);
  const auto keys = static_cast<double>(config.num_kv_heads * config.head_dim);
  const double mlp =
      static_cast<double>(config.intermediate_size) * (config.architecture->has_gate() ? 3 : 2);
  std::vector<double> costs = {hidden};
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    int64_t seen = sequence_len;
    if (config.layer_window[layer] > 0) seen = std::min(seen, 2 * config.layer_window[layer]);
    costs.push_back(hidden * (2 * queries + 2 * keys + mlp) + queries * static_cast<double>(seen));
  }
  costs.push_back(hidden * static_cast<double>(config.vocab_size));
  return costs;
}

std::vector<size_t> BalanceStages(const std::vector<double>& costs, int stages) {
  const size_t blocks = costs.size();
  std::vector<double> until(blocks + 1, 0.0);
  std::partial_sum(costs.begin(), costs.end(), until.begin() + 1);
  // Of the first `end` blocks in so many stages: the greatest cost, then the sum of squares.
  using Score = std::pair<double, double>;
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<std::vector<Score>> best(stages + 1, std::vector<Score>(blocks + 1, {kNone, kNone}));
  std::vector<std::vector<size_t>> cut(stages + 1, std::vector<size_t>(blocks + 1, 0));
  best[0][0] = {0.0, 0.0};
  for (int stage = 1; stage <= stages; ++stage) {
    for (size_t end = static_cast<size_t>(stage); end <= blocks; ++end) {
      for (size_t begin = static_cast<size_t>(stage) - 1; begin < end; ++begin) {
        const auto& [greatest, squares] = best[stage - 1][begin];
        const double cost = until[end] - until[begin];
        const Score score = {std::max(greatest, cost), squares + cost * cost};
        if (score >= best[stage][end]) continue;
        best[stage][end] = score;
        cut[stage][end] = begin;
      }
    }
  }
  std::vector<size_t> counts(stages);
  size_t end = blocks;
  for (int stage = stages; stage > 0; --stage) {
    counts[stage - 1] = end - cut[stage][end];
    end = cut[stage][end];
  }
  return counts;
}

absl::StatusOr<std::vector<size_t>> PlanStages(const ModelConfig& config, int64_t sequence_len, int stages,
                                               const std::optional<std::vector<int64_t>>& layers) {
  if (layers) return StagesByHand(config, stages, *layers);
  const std::vector<double> costs = BlockCosts(config, sequence_len);
  if (stages > std::ssize(costs)) {
    return UsageError(
        {.key = "parallel.pipeline",
         .message = "there are more stages than the model has blocks",
         .found = StrCat(stages, " stages (parallel.pipeline times virtual_stages)"),
         .expected = StrCat("at most ", costs.size(), ": ", config.num_layers, " layers, embedding, head"),
         .hint = "use fewer stages, and more ranks of parallel.data or parallel.tensor"});
  }
  return BalanceStages(costs, stages);
}

ModelPart PartOf(const ScheduleShape& shape, int rank, const std::vector<size_t>& blocks_of_stage) {
  ModelPart part;
  size_t first = 0;
  for (int stage = 0; stage < shape.stages(); ++stage) {
    const size_t count = blocks_of_stage[stage];
    if (shape.RankOf(stage) == rank) part.push_back({stage, first, count});
    first += count;
  }
  return part;
}

}  // namespace ftune
