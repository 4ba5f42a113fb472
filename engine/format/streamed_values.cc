#include "engine/format/streamed_values.h"

#include <utility>

namespace ftune {

StreamedValues::StreamedValues(Backend& backend, Model& model, std::vector<ParameterFill> fills)
    : backend_(backend), model_(model), fills_(std::move(fills)), blocks_(model.blocks().size()) {
  model_.set_hooks(this);
}

StreamedValues::~StreamedValues() {
  if (&model_.hooks() == this) model_.set_hooks(nullptr);
}

void StreamedValues::BeforeUse(size_t block, std::optional<size_t>) {
  const std::optional<size_t> lender = model_.lender(block);
  if (lender) Hold(*lender);
  Hold(block);
  // Its views of the other's weight.
  if (lender) model_.blocks()[block]->Bind();
}

void StreamedValues::AfterUse(size_t block) {
  if (const std::optional<size_t> lender = model_.lender(block)) --blocks_[*lender].uses;
  --blocks_[block].uses;
}

void StreamedValues::Hold(size_t block) {
  if (!blocks_[block].here) {
    GiveUpUnused();
    Read(block);
  }
  ++blocks_[block].uses;
}

void StreamedValues::Read(size_t block) {
  ParameterStore& store = model_.blocks()[block]->store();
  store.Allocate(backend_);
  blocks_[block].here = true;
  for (const Parameter& parameter : store.parameters()) {
    for (const ParameterFill& fill : fills_) status_.Update(fill(parameter));
  }
  model_.blocks()[block]->Bind();
}

void StreamedValues::GiveUpUnused() {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (!blocks_[i].here || blocks_[i].uses > 0) continue;
    ParameterStore& store = model_.blocks()[i]->store();
    store.PlaceValues({}, {});
    store.Own({}, {});
    model_.blocks()[i]->Bind();
    blocks_[i].here = false;
  }
}

}  // namespace ftune
