#include "engine/optim/optimizer.h"

#include <algorithm>
#include <cassert>

namespace ftune {

Optimizer::Optimizer(Backend& backend, Stream stream, Model& model, const OptimizerOptions& options)
    : options_(options), rules_(MakeRules(options)) {
  const auto& blocks = model.blocks();
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i]->store().has_trainable()) shards_.push_back(MakeShard(backend, stream, *blocks[i], i));
  }
}

Optimizer::Shard Optimizer::MakeShard(Backend& backend, Stream stream, const Block& block,
                                      uint64_t site) const {
  Shard shard;
  shard.store = &block.store();
  shard.site = site;
  for (const Parameter& p : shard.store->parameters()) {
    if (p.trainable) shard.parameters.push_back(Place(p, block.hidden(), shard));
  }
  for (const PlacedParameter& placed : shard.parameters) AddToRuns(placed, shard);

  const Tensor& values = shard.store->flat_values();
  if (values.dtype() != DType::kF32 && options_.master) {
    shard.master = backend.Allocate(1, values.size(), Category::kOptimizer);
    backend.Convert(stream, values, shard.master);
  }
  for (FlatState& flat : shard.state) {
    flat.tensor = backend.Allocate(flat.spec.dtype, 1, flat.spec.size, Category::kOptimizer);
    backend.Zero(stream, flat.tensor);
  }
  return shard;
}

Optimizer::PlacedParameter Optimizer::Place(const Parameter& parameter, bool hidden, Shard& shard) const {
  const auto rule =
      std::find_if(rules_.begin(), rules_.end(), [&](const auto& r) { return r->Covers(parameter, hidden); });
  assert(rule != rules_.end());
  PlacedParameter placed = {&parameter, rule->get(), {}};
  for (const StateSpec& spec : (*rule)->StateOf(parameter)) {
    auto flat = std::find_if(shard.state.begin(), shard.state.end(),
                             [&](const FlatState& s) { return s.spec.name == spec.name; });
    if (flat == shard.state.end()) flat = shard.state.insert(flat, {{spec.name, spec.dtype, 0}, {}});
    placed.state.push_back({static_cast<size_t>(flat - shard.state.begin()), flat->spec.size, spec.size});
    flat->spec.size += spec.size;
  }
  return placed;
}

// Parameters that lie side by side and are treated alike are one run.
void Optimizer::AddToRuns(const PlacedParameter& placed, Shard& shard) const {
  const Parameter& p = *placed.parameter;
  const float decay = p.decay ? options_.weight_decay : 0.0f;
  if (!shard.runs.empty()) {
    Run& last = shard.runs.back();
    if (last.rule == placed.rule && placed.rule->elementwise() && last.group.weight_decay == decay &&
        last.group.lr_factor == p.lr_factor) {
      last.group.count += p.size();
      for (size_t i = 0; i < last.state.size(); ++i) last.state[i].size += placed.state[i].size;
      return;
    }
  }
  shard.runs.push_back({placed.rule, &p, {p.offset, p.size(), decay, p.lr_factor}, placed.state});
}

void Optimizer::Step(Backend& backend, Stream stream, float learning_rate, const Tensor& gradient_scale) {
  ++updates_;
  for (const Shard& shard : shards_) {
    for (const Run& run : shard.runs) Update(backend, stream, shard, run, learning_rate, gradient_scale);
  }
}

void Optimizer::Update(Backend& backend, Stream stream, const Shard& shard, const Run& run,
                       float learning_rate, const Tensor& gradient_scale) const {
  const ParameterGroup& group = run.group;
  const Tensor values = shard.store->flat_values().Cols(group.begin, group.count);
  const bool has_master = shard.master.defined();
  UpdateRun update = {.first = run.first,
                      .update = {.weights = has_master ? shard.master.Cols(group.begin, group.count) : values,
                                 .low = has_master ? values : Tensor(),
                                 .gradients = shard.store->flat_gradients().Cols(group.begin, group.count),
                                 .gradient_scale = gradient_scale,
                                 .learning_rate = static_cast<float>(learning_rate * group.lr_factor),
                                 .weight_decay = group.weight_decay,
                                 .draws = {.seed = options_.seed,
                                           .step = static_cast<uint64_t>(updates_),
                                           .site = shard.site,
                                           .first = group.begin}},
                      .state = {},
                      .step = updates_};
  for (const StatePlace& place : run.state) {
    update.state.push_back(shard.state[place.tensor].tensor.Cols(place.offset, place.size));
  }
  run.rule->Update(backend, stream, update);
}

std::vector<NamedTensor> Optimizer::StateOf(const Parameter& parameter) const {
  std::vector<NamedTensor> all;
  for (const Shard& shard : shards_) {
    for (const PlacedParameter& placed : shard.parameters) {
      if (placed.parameter != &parameter) continue;
      if (shard.master.defined()) {
        all.push_back({"master", shard.master.Cols(parameter.offset, parameter.size())});
      }
      for (const StatePlace& place : placed.state) {
        const FlatState& flat = shard.state[place.tensor];
        all.push_back({std::string(flat.spec.name), flat.tensor.Cols(place.offset, place.size)});
      }
    }
  }
  return all;
}

Tensor Optimizer::StateOf(const Parameter& parameter, std::string_view name) const {
  for (const NamedTensor& state : StateOf(parameter)) {
    if (state.name == name) return state.tensor;
  }
  return {};
}

}  // namespace ftune
