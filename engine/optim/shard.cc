#include "engine/optim/shard.h"

#include <algorithm>

namespace ftune {
namespace {

PlacedParameter Place(const Parameter& parameter, const FlatRange& part, const UpdateRule& rule,
                      Shard& shard) {
  PlacedParameter placed = {&parameter, &rule, part, {}};
  for (const StateSpec& spec : rule.StateOf(parameter, part.count)) {
    auto flat = std::find_if(shard.state.begin(), shard.state.end(),
                             [&](const StateSpec& s) { return s.name == spec.name; });
    if (flat == shard.state.end()) flat = shard.state.insert(flat, {spec.name, spec.dtype, 0, spec.unit});
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
      last.group.count += placed.part.count;
      for (size_t i = 0; i < last.state.size(); ++i) last.state[i].size += placed.state[i].size;
      return;
    }
  }
  shard.runs.push_back(
      {placed.rule, &p, {placed.part.begin, placed.part.count, decay, p.lr_factor}, placed.state});
}

}  // namespace

Shard LayOutShard(const Block& block, uint64_t site, const UpdateRules& rules,
                  const OptimizerOptions& options) {
  Shard shard;
  shard.store = &block.store();
  shard.range = shard.store->owned();
  shard.site = site;
  shard.master = shard.store->trainable_dtype() != DType::kF32 && options.master;
  for (const Parameter* p : shard.store->in_storage_order()) {
    if (!p->trainable) continue;
    const FlatRange part = Intersect({p->offset, p->size()}, shard.range);
    if (part.count == 0) continue;
    shard.parameters.push_back(Place(*p, part, RuleOf(rules, *p, block.hidden()), shard));
  }
  for (const PlacedParameter& placed : shard.parameters) AddToRuns(placed, options, shard);
  return shard;
}

}  // namespace ftune
