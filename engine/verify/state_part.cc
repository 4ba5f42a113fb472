#include "engine/verify/state_part.h"

namespace ftune {
namespace {

// The parameters' shares of what `owned` gives of a store, a tensor of owned().count elements.
template <class Owned>
std::vector<StatePart> PartsOf(Model& model, const Owned& owned) {
  std::vector<StatePart> parts;
  for (auto& block : model.blocks()) {
    const ParameterStore& store = block->store();
    const FlatRange& range = store.owned();
    for (const Parameter& p : store.parameters()) {
      if (!p.trainable) continue;
      const FlatRange part = Intersect({p.offset, p.size()}, range);
      if (part.count == 0) continue;
      parts.push_back({&p, part.begin - p.offset, owned(store).Cols(part.begin - range.begin, part.count)});
    }
  }
  return parts;
}

}  // namespace

std::vector<StatePart> OwnedGradients(Model& model) {
  return PartsOf(model, [](const ParameterStore& store) { return store.owned_gradients(); });
}

std::vector<StatePart> OwnedValues(Model& model) {
  return PartsOf(model, [](const ParameterStore& store) { return store.owned_values(); });
}

}  // namespace ftune
