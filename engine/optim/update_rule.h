// How one optimizer moves weights: the seam between the optimizer, which owns state and master copies, and
// the backend's ops.
#pragma once

#include <string_view>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/model/parameter_store.h"

namespace ftune {

// A tensor [1, size] that is kept for a parameter from step to step; zero before the first.
struct StateSpec {
  static constexpr int64_t kOfWhole = 0;

  std::string_view name;  // as in checkpoints
  DType dtype = DType::kF32;
  int64_t size = 0;
  // How many elements of the parameter one value is of, counted from its first; kOfWhole: all are of the
  // whole parameter.
  int64_t unit = 1;
};

// Parameters side by side in a flat shard that are updated by one call.
struct UpdateRun {
  const Parameter* first = nullptr;  // the only one, unless the rule is element-wise
  UpdateArgs update;                 // flat, [1, n]
  std::vector<Tensor> state;         // of all of them, in the order of StateOf
  int64_t step = 1;                  // 1-based, of updates: skipped steps do not count
};

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  // Whether the rule is for this parameter; of several rules the first that says so has it. `hidden`: it
  // belongs to a layer between embedding and head.
  virtual bool Covers(const Parameter&, bool /*hidden*/) const { return true; }
  // Of `count` elements of the parameter: all, or a part that begins and ends where grain() says.
  virtual std::vector<StateSpec> StateOf(const Parameter& parameter, int64_t count) const = 0;
  // How many elements, counted from a parameter's first, are updated together: a parameter may be cut between
  // them. 1: an element's update depends on nothing but that element, its gradient and its state.
  static constexpr int64_t kWhole = 0;
  virtual int64_t grain() const = 0;
  // Then parameters side by side may be one run.
  bool elementwise() const { return grain() == 1; }
  virtual void Update(Backend& backend, Stream stream, const UpdateRun& run) const = 0;
};

}  // namespace ftune
