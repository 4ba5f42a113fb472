// The parameters of one block: views into flat storage. Trainable ones lie side by side, without gaps, in one
// flat tensor with a flat gradient of the same layout (what an optimizer or a reduction works on); frozen
// ones lie in another, each in the dtype that it has in the file. Small ones may lie in front of the others,
// so that the two kinds of values can have homes of their own.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/model/flat_range.h"
#include "parallel/placement.h"

namespace ftune {

struct Parameter {
  std::string name;            // global: Hugging Face's parameter name
  std::vector<int64_t> shape;  // global
  // What this rank of the tensor axis holds of each dimension; at most one is cut.
  std::vector<Dimension> dims;
  std::vector<int64_t> local_shape;
  // How what the gradient is a sum over lies on the tensor axis: tokens under sequence parallelism, heads,
  // outputs. Where that is cut, so that each rank has terms of its own, ranks that hold the same elements
  // hold Partial gradients of them.
  Placement terms;
  AxisPosition position;      // on the tensor axis
  DType dtype = DType::kF32;  // as stored here
  bool trainable = false;
  bool decay = false;      // weight decay applies (not to norms and biases)
  double lr_factor = 1.0;  // of the optimizer's learning rate (LoRA+); read when the optimizer is made

  Tensor value;        // [local_shape[0], local_shape[1]], or [1, local_shape[0]]
  Tensor gradient;     // f32, like value; undefined if frozen
  int64_t offset = 0;  // of the first element in the flat trainable tensor

  int64_t size() const;         // of what this rank holds
  int64_t global_size() const;  // of the whole
  // Of the value over the tensor axis.
  Placement placement() const;
};

class ParameterStore {
 public:
  // `position`: on the tensor axis.
  explicit ParameterStore(const AxisPosition& position = {}) : position_(position) {}

  const AxisPosition& position() const { return position_; }
  // The reference stays valid. Values exist after Allocate or PlaceValues. `terms` as in Parameter.
  Parameter& Declare(std::string name, std::vector<Dimension> dims, Placement terms, DType dtype,
                     bool trainable, bool decay);

  // After the last parameter, and before anything below: fixes where each is in flat storage, those with
  // fewer elements than `small_below`, of the whole parameter, in front. All trainable ones must have one
  // dtype.
  void LayOut(int64_t small_below = 0);

  // Values and gradients whole in memory of their own, all of them owned.
  void Allocate(Backend& backend);
  void AllocateGradients(Backend& backend, Stream stream);
  // Flat values in two pieces, of the small parameters and of the others; undefined where there are none.
  struct Home {
    Tensor small, large;
  };
  // Or in memory from elsewhere: [1, trainable_size] and [1, frozen_bytes] u8.
  void PlaceValues(const Home& trainable, const Home& frozen);
  void PlaceGradients(const Tensor& flat);

  // The part of the flat tensors that this rank updates. Its values are always there, and its gradients when
  // the step has reduced them, whether or not the whole is.
  void Own(const FlatRange& range, const Tensor& values);
  void OwnGradients(const Tensor& gradients);
  const FlatRange& owned() const { return owned_; }
  const Tensor& owned_values() const { return owned_values_; }        // [1, owned().count]
  const Tensor& owned_gradients() const { return owned_gradients_; }  // f32, same

  std::deque<Parameter>& parameters() { return parameters_; }
  const std::deque<Parameter>& parameters() const { return parameters_; }
  // By place in flat storage.
  const std::vector<Parameter*>& in_storage_order() const { return storage_order_; }
  int64_t trainable_size() const { return trainable_size_; }
  DType trainable_dtype() const { return trainable_dtype_; }
  int64_t frozen_bytes() const { return frozen_bytes_; }
  int64_t small_trainable_size() const { return small_trainable_size_; }  // of trainable_size
  int64_t small_frozen_bytes() const { return small_frozen_bytes_; }      // of frozen_bytes
  // f32 [1, trainable_size]; undefined if that is 0.
  const Tensor& flat_gradients() const { return flat_gradients_; }
  bool has_trainable() const { return trainable_size_ > 0; }

 private:
  AxisPosition position_;
  std::deque<Parameter> parameters_;  // a deque keeps references valid while it grows
  bool laid_out_ = false;
  std::vector<Parameter*> storage_order_;
  int64_t trainable_size_ = 0, small_trainable_size_ = 0;
  DType trainable_dtype_ = DType::kF32;
  int64_t frozen_bytes_ = 0, small_frozen_bytes_ = 0;
  Tensor flat_gradients_;
  FlatRange owned_;
  Tensor owned_values_;
  Tensor owned_gradients_;
};

// The views of consecutive parameters as one matrix of all their rows; undefined if they do not lie side by
// side in storage with one dtype and width. What is quantised as a whole stays apart.
Tensor JoinRows(const std::vector<Tensor>& parts);

}  // namespace ftune
