#include "engine/optim/shard.h"

#include <algorithm>
#include <cassert>

namespace ftune {
namespace {

using Rules = std::vector<std::unique_ptr<const UpdateRule>>;

PlacedParameter Place(const Parameter& parameter, bool hidden, const Rules& rules, Shard& shard) {
  const auto rule =
      std::find_if(rules.begin(), rules.end(), [&](const auto& r) { return r->Covers(parameter, hidden); });
  assert(rule != rules.end());
  PlacedParameter placed = {&parameter, rule->get(), {}};
  for (const StateSpec& spec : (*rule)->StateOf(parameter)) {
    auto flat = std::find_if(shard.state.begin(), shard.state.end(),
                             [&](const StateSpec& s) { return s.name == spec.name; });
    if (flat == shard.state.end()) flat = shard.state.insert(flat, {spec.name, spec.dtype, 0});
    placed.state.push_back({static_cast<size_t>(flat - shard.state.begin()), flat->size, spec.size});
    flat->size += spec.size;
  }
  return placed;
}

// Parameters that lie side by side and are treated alike are one run.
void AddToRuns(const PlacedParameter& placed, const OptimizerOptions& options, Shard& shard) {
  const Parameter& p = *placed.parameter;
  const float decay = p.decay ? options.weight_decay : 0.0f;
  if (!shard.runs.empty()) {
    ShardRun& last = shard.runs.back();
    if (last.rule == placed.rule && placed.rule->elementwise() && last.group.weight_decay == decay &&
        last.group.lr_factor == p.lr_factor) {
      last.group.count += p.size();
      for (size_t i = 0; i < last.state.size(); ++i) last.state[i].size += placed.state[i].size;
      return;
    }
  }
  shard.runs.push_back({placed.rule, &p, {p.offset, p.size(), decay, p.lr_factor}, placed.state});
}

}  // namespace

Shard LayOutShard(const Block& block, uint64_t site, const Rules& rules, const OptimizerOptions& options) {
  Shard shard;
  shard.store = &block.store();
  shard.site = site;
  shard.master = shard.store->flat_values().dtype() != DType::kF32 && options.master;
  for (const Parameter& p : shard.store->parameters()) {
    if (p.trainable) shard.parameters.push_back(Place(p, block.hidden(), rules, shard));
  }
  for (const PlacedParameter& placed : shard.parameters) AddToRuns(placed, options, shard);
  return shard;
}

}  // namespace ftune
