#include "cmd/plan/tensor_names.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

// By the number of an allocation.
using ScopeOfTensor = std::map<int64_t, OpenScope>;

void AddTensor(const Tensor& tensor, const std::string& name, size_t block, ScopeOfTensor& scopes) {
  if (!tensor.defined()) return;
  const auto number = static_cast<int64_t>(block);
  OpenScope& scope =
      scopes.try_emplace(tensor.storage()->number(), OpenScope{name, number, number, nullptr}).first->second;
  scope.first = std::min(scope.first, number);
  scope.last = std::max(scope.last, number);
}

}  // namespace

absl::Status NameTensors(const Model& model, const Optimizer& optimizer, MemoryTrack& track) {
  ScopeOfTensor scopes;
  for (const auto& block : model.blocks()) {
    const size_t number = block->number();
    const ParameterStore& store = std::as_const(*block).store();
    for (const Parameter& p : store.parameters()) {
      AddTensor(p.value, "block", number, scopes);
      AddTensor(p.gradient, "block", number, scopes);
      if (optimizer.disk() != nullptr) continue;
      FTUNE_ASSIGN_OR_RETURN(const std::vector<NamedTensor> state, optimizer.StateOf(p));
      for (const NamedTensor& part : state) {
        AddTensor(part.tensor, StrCat(part.name, " of block"), number, scopes);
      }
    }
    AddTensor(store.owned_values(), "block", number, scopes);
    AddTensor(store.owned_gradients(), "block", number, scopes);
  }
  for (auto& [allocation, scope] : scopes) {
    track.Name(allocation, std::make_shared<const OpenScope>(std::move(scope)));
  }
  return absl::OkStatus();
}

}  // namespace ftune
