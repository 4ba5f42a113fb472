#include "engine/optim/optimizer.h"

namespace ftune {
namespace {

std::vector<DecayRange> DecayRanges(const ParameterStore& store, float weight_decay) {
  std::vector<DecayRange> ranges;
  for (const Parameter& p : store.parameters()) {
    if (!p.trainable) continue;
    const float decay = p.decay ? weight_decay : 0.0f;
    if (!ranges.empty() && ranges.back().weight_decay == decay) {
      ranges.back().count += p.size();
    } else {
      ranges.push_back({p.offset, p.size(), decay});
    }
  }
  return ranges;
}

}  // namespace

Optimizer::Optimizer(Backend& backend, Stream stream, Model& model, const OptimizerOptions& options)
    : options_(options) {
  for (auto& block : model.blocks()) {
    ParameterStore& store = block->store();
    if (!store.has_trainable()) continue;
    Shard shard;
    shard.store = &store;
    shard.decay = DecayRanges(store, options.weight_decay);
    const auto state = [&] { return backend.Allocate(1, store.trainable_size(), Category::kOptimizer); };
    if (store.flat_values().dtype() != DType::kF32) {
      shard.master = state();
      backend.Convert(stream, store.flat_values(), shard.master);
    }
    if (options.kind == OptimizerKind::kAdamW) {
      shard.moment1 = state();
      shard.moment2 = state();
      backend.Zero(stream, shard.moment1);
      backend.Zero(stream, shard.moment2);
    }
    shards_.push_back(std::move(shard));
  }
}

void Optimizer::Step(Backend& backend, Stream stream, int64_t step, float learning_rate,
                     const Tensor& gradient_scale) {
  for (const Shard& shard : shards_) {
    const bool has_master = shard.master.defined();
    const Tensor& weights = has_master ? shard.master : shard.store->flat_values();
    const Tensor low = has_master ? shard.store->flat_values() : Tensor();
    switch (options_.kind) {
      case OptimizerKind::kAdamW:
        backend.AdamW(stream, {.weights = weights,
                               .low = low,
                               .gradients = shard.store->flat_gradients(),
                               .moment1 = shard.moment1,
                               .moment2 = shard.moment2,
                               .gradient_scale = gradient_scale,
                               .decay = shard.decay,
                               .learning_rate = learning_rate,
                               .beta1 = options_.beta1,
                               .beta2 = options_.beta2,
                               .eps = options_.eps,
                               .step = step});
        break;
      case OptimizerKind::kSgd:
        backend.Sgd(stream, {.weights = weights,
                             .low = low,
                             .gradients = shard.store->flat_gradients(),
                             .gradient_scale = gradient_scale,
                             .decay = shard.decay,
                             .learning_rate = learning_rate});
        break;
    }
  }
}

Optimizer::State Optimizer::StateOf(const Parameter& parameter) const {
  for (const Shard& shard : shards_) {
    for (const Parameter& p : shard.store->parameters()) {
      if (&p != &parameter || !p.trainable) continue;
      const auto view = [&](const Tensor& flat) {
        return flat.defined() ? flat.Cols(p.offset, p.size()) : Tensor();
      };
      return {view(shard.master), view(shard.moment1), view(shard.moment2)};
    }
  }
  return {};
}

}  // namespace ftune
