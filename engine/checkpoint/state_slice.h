// What a rank has of a checkpoint's tensors: of parameters' values and of what the optimizer keeps for them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "engine/checkpoint/region.h"
#include "engine/model/model.h"
#include "engine/optim/optimizer.h"
#include "engine/shard/model_shards.h"

namespace ftune {

// Values that lie side by side on the rank: of a parameter, or of one of its states.
// The name of what compressed sums of gradients lack, which is kept by element.
inline constexpr std::string_view kOwedName = "owed";

struct StateSlice {
  const ParameterStore* store = nullptr;
  const Parameter* parameter = nullptr;
  // In the manifest; empty: the parameter's values, which are the master where there is one.
  std::string state;
  // By the optimizer, or, under kOwedName, by the compressed sums; empty: the parameter's values themselves.
  std::string kept_as;
  size_t block = 0;  // of the model's blocks
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // of the whole tensor
  // In the tensor that the rank keeps: what it owns of the parameter, Optimizer::StateOf, or
  // CompressedSums::owed of the block.
  FlatRange values;
  std::vector<Region> regions;  // of the whole tensor; side by side in `values`

  int64_t bytes() const { return BytesFor(dtype, values.count); }
};

// Of the elements `part` of a parameter, of which the rank owns `owned`; both count local elements, and a
// part begins and ends where the optimizer may cut. Values first.
std::vector<StateSlice> SlicesOf(const ParameterStore& store, const Parameter& parameter,
                                 const FlatRange& owned, const FlatRange& part,
                                 const std::vector<StateSpec>& specs);

// What this rank owns of a parameter, in local elements; its values.
FlatRange OwnedPart(const ParameterStore& store, const Parameter& parameter);
Tensor OwnedValues(const ParameterStore& store, const Parameter& parameter);

// All slices that this rank is to write, by parameters in order of blocks. Over all ranks of the mesh each
// element of each tensor is in one slice: ranks that have the same share the work.
std::vector<StateSlice> SlicesToWrite(const Model& model, const ModelShards& shards,
                                      const Optimizer& optimizer);
// All that it has.
std::vector<StateSlice> SlicesToRead(const Model& model, const ModelShards& shards,
                                     const Optimizer& optimizer);

}  // namespace ftune
