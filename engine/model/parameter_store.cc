#include "engine/model/parameter_store.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>

namespace ftune {
namespace {

int64_t Columns(const Parameter& p) { return p.local_shape.back(); }
int64_t RowCount(const Parameter& p) { return p.local_shape.size() == 2 ? p.local_shape[0] : 1; }

int64_t Product(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Frozen tensors start on cache lines. Matrices whose bytes are whole lines thus still lie side by side.
int64_t FrozenBytes(const Parameter& p) {
  constexpr int64_t kLine = 64;
  return (BytesFor(p.dtype, p.size()) + kLine - 1) / kLine * kLine;
}

}  // namespace

int64_t Parameter::size() const { return Product(local_shape); }

int64_t Parameter::global_size() const { return Product(shape); }

Placement Parameter::placement() const {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].sharded()) return Placement::Shard(static_cast<int>(i));
  }
  return Placement::Replicate();
}

Parameter& ParameterStore::Declare(std::string name, std::vector<Dimension> dims, Placement terms,
                                   DType dtype, bool trainable, bool decay) {
  assert(!laid_out_);
  Parameter& p = parameters_.emplace_back();
  p.name = std::move(name);
  for (const Dimension& dim : dims) {
    p.shape.push_back(dim.size());
    p.local_shape.push_back(dim.local_size());
  }
  p.dims = std::move(dims);
  p.terms = terms;
  p.position = position_;
  p.dtype = dtype;
  p.trainable = trainable;
  p.decay = decay;
  return p;
}

void ParameterStore::LayOut(int64_t small_below) {
  laid_out_ = true;
  storage_order_.clear();
  for (Parameter& p : parameters_) storage_order_.push_back(&p);
  const auto small = [&](const Parameter* p) { return p->global_size() < small_below; };
  std::stable_partition(storage_order_.begin(), storage_order_.end(), small);

  trainable_size_ = frozen_bytes_ = 0;
  small_trainable_size_ = small_frozen_bytes_ = 0;
  for (Parameter* p : storage_order_) {
    if (p->trainable) {
      assert(trainable_size_ == 0 || p->dtype == trainable_dtype_);
      trainable_dtype_ = p->dtype;
      p->offset = trainable_size_;
      trainable_size_ += p->size();
    } else {
      frozen_bytes_ += FrozenBytes(*p);
    }
    if (!small(p)) continue;
    small_trainable_size_ = trainable_size_;
    small_frozen_bytes_ = frozen_bytes_;
  }
}

void ParameterStore::Allocate(Backend& backend) {
  if (!laid_out_) LayOut();
  Tensor trainable, frozen;
  if (trainable_size_ > 0) {
    trainable = backend.Allocate(trainable_dtype_, 1, trainable_size_, Category::kWeights);
  }
  if (frozen_bytes_ > 0) frozen = backend.Allocate(DType::kU8, 1, frozen_bytes_, Category::kWeights);
  PlaceValues({.large = trainable}, {.large = frozen});
  Own({0, trainable_size_}, trainable);
}

void ParameterStore::PlaceValues(const Home& trainable, const Home& frozen) {
  assert(laid_out_);
  int64_t frozen_offset = 0;
  for (Parameter* p : storage_order_) {
    const Home& home = p->trainable ? trainable : frozen;
    int64_t offset = p->trainable ? BytesFor(p->dtype, p->offset) : frozen_offset;
    const int64_t small = p->trainable ? BytesFor(p->dtype, small_trainable_size_) : small_frozen_bytes_;
    const Tensor& piece = offset < small ? home.small : home.large;
    if (offset >= small) offset -= small;
    p->value = Tensor(piece.storage(), piece.offset() + offset, p->dtype, RowCount(*p), Columns(*p));
    if (!p->trainable) frozen_offset += FrozenBytes(*p);
  }
}

void ParameterStore::AllocateGradients(Backend& backend, Stream stream) {
  if (trainable_size_ == 0) return;
  const Tensor flat = backend.Allocate(1, trainable_size_, Category::kGradients);
  backend.Zero(stream, flat);
  PlaceGradients(flat);
  OwnGradients(flat);
}

void ParameterStore::PlaceGradients(const Tensor& flat) {
  flat_gradients_ = flat;
  for (Parameter& p : parameters_) {
    if (!p.trainable) continue;
    p.gradient = Tensor(flat.storage(), flat.offset() + BytesFor(DType::kF32, p.offset), DType::kF32,
                        RowCount(p), Columns(p));
  }
}

void ParameterStore::Own(const FlatRange& range, const Tensor& values) {
  owned_ = range;
  owned_values_ = values;
}

void ParameterStore::OwnGradients(const Tensor& gradients) { owned_gradients_ = gradients; }

Tensor JoinRows(const std::vector<Tensor>& parts) {
  if (parts[0].defined() && IsQuantizedWhole(parts[0].dtype()))
    return parts.size() == 1 ? parts[0] : Tensor();
  int64_t rows = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Tensor& part = parts[i];
    if (!part.defined() || !part.contiguous()) return {};
    if (part.storage() != parts[0].storage() || part.dtype() != parts[0].dtype()) return {};
    if (part.cols() != parts[0].cols()) return {};
    if (part.offset() != parts[0].offset() + BytesFor(part.dtype(), rows * part.cols())) return {};
    rows += part.rows();
  }
  return Tensor(parts[0].storage(), parts[0].offset(), parts[0].dtype(), rows, parts[0].cols());
}

}  // namespace ftune
