#include "engine/train/step_costs.h"

#include <algorithm>

namespace ftune {
namespace {

template <class T>
std::vector<T> Each(const std::vector<StepCosts>& costs, T StepCosts::*field) {
  std::vector<T> values;
  for (const StepCosts& own : costs) values.push_back(own.*field);
  return values;
}

}  // namespace

WorldCosts TotalOf(const MeshShape& shape, int rank, const std::vector<StepCosts>& costs) {
  WorldCosts total;
  total.tokens = SumOverAxis(shape, MeshAxis::kData, Each(costs, &StepCosts::tokens))[rank];
  const std::vector<double> of_stages = SumOverAxis(shape, MeshAxis::kData, Each(costs, &StepCosts::flops));
  total.flops = SumOverAxis(shape, MeshAxis::kPipeline, of_stages)[rank];
  const auto most = std::max_element(costs.begin(), costs.end(), [](const StepCosts& a, const StepCosts& b) {
    return a.memory.total() < b.memory.total();
  });
  total.memory = most->memory;
  total.memory_rank = static_cast<int>(most - costs.begin());
  return total;
}

}  // namespace ftune
