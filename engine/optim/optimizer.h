// An optimizer on the blocks' flat shards: it owns the state that its rules ask for and the master copies of
// low-precision weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "engine/optim/rules.h"

namespace ftune {

// Elements of a flat shard with their own learning rate and decay.
struct ParameterGroup {
  int64_t begin = 0;
  int64_t count = 0;
  float weight_decay = 0.0f;
  double lr_factor = 1.0;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

class Optimizer {
 public:
  // Takes the trainable parameters of `model` as they are now: weights in low precision get their f32 master
  // here, so values are loaded before. `model` outlives the optimizer.
  Optimizer(Backend& backend, Stream stream, Model& model, const OptimizerOptions& options);

  // gradient_scale: [1, 1] f32 on the device.
  void Step(Backend& backend, Stream stream, float learning_rate, const Tensor& gradient_scale);

  // Updates made so far: what bias corrections and random rounding count by. Set on a resume.
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }

  // All that is kept for a parameter from step to step: its "master", where it has one, and its rule's state,
  // as views of the flat tensors. Empty for a frozen parameter.
  std::vector<NamedTensor> StateOf(const Parameter& parameter) const;
  // One of them; undefined where there is none of that name.
  Tensor StateOf(const Parameter& parameter, std::string_view name) const;

 private:
  // Where one piece of a parameter's state is.
  struct StatePlace {
    size_t tensor = 0;  // of Shard::state
    int64_t offset = 0;
    int64_t size = 0;
  };
  struct PlacedParameter {
    const Parameter* parameter = nullptr;
    const UpdateRule* rule = nullptr;
    std::vector<StatePlace> state;
  };
  // What is updated by one call.
  struct Run {
    const UpdateRule* rule = nullptr;
    const Parameter* first = nullptr;
    ParameterGroup group;
    std::vector<StatePlace> state;
  };
  struct FlatState {
    StateSpec spec;  // its size is that of all parameters together
    Tensor tensor;
  };
  struct Shard {
    const ParameterStore* store = nullptr;
    uint64_t site = 0;  // index of the block: keys random rounding
    Tensor master;      // undefined where the weights are f32, their own master, or have none
    std::vector<FlatState> state;
    std::vector<PlacedParameter> parameters;
    std::vector<Run> runs;
  };

  Shard MakeShard(Backend& backend, Stream stream, const Block& block, uint64_t site) const;
  PlacedParameter Place(const Parameter& parameter, bool hidden, Shard& shard) const;
  void AddToRuns(const PlacedParameter& placed, Shard& shard) const;
  void Update(Backend& backend, Stream stream, const Shard& shard, const Run& run, float learning_rate,
              const Tensor& gradient_scale) const;

  OptimizerOptions options_;
  std::vector<std::unique_ptr<const UpdateRule>> rules_;
  std::vector<Shard> shards_;
  int64_t updates_ = 0;
};

}  // namespace ftune
