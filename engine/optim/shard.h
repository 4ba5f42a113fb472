// How a rank's share of a block's trainable parameters is updated: which rule has which, what state it keeps,
// and which elements one call updates. No memory yet.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/model/block.h"
#include "engine/optim/rules.h"

namespace ftune {

// The name of the f32 copy of low-precision weights among what is kept.
inline constexpr std::string_view kMasterName = "master";

// Elements with their own learning rate and decay.
struct ParameterGroup {
  int64_t begin = 0;  // in the block's flat tensor
  int64_t count = 0;
  float weight_decay = 0.0f;
  double lr_factor = 1.0;
};

// Where one piece of a parameter's state is.
struct StatePlace {
  size_t tensor = 0;  // of Shard::state
  int64_t offset = 0;
  int64_t size = 0;
};

struct PlacedParameter {
  const Parameter* parameter = nullptr;
  const UpdateRule* rule = nullptr;
  FlatRange part;  // of it that is in the shard, in the block's flat tensor
  std::vector<StatePlace> state;
};

// What may be updated by one call.
struct ShardRun {
  const UpdateRule* rule = nullptr;
  const Parameter* first = nullptr;
  ParameterGroup group;
  std::vector<StatePlace> state;
};

struct Shard {
  const ParameterStore* store = nullptr;
  FlatRange range;               // what the store's rank owns
  uint64_t site = 0;             // index of the block: keys random rounding
  bool master = false;           // kept: the weights are in low precision
  std::vector<StateSpec> state;  // sizes are those of all parameters together
  std::vector<PlacedParameter> parameters;
  std::vector<ShardRun> runs;
};

// Of what the block's store owns.
Shard LayOutShard(const Block& block, uint64_t site, const UpdateRules& rules,
                  const OptimizerOptions& options);

}  // namespace ftune
