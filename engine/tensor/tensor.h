// A tensor: a matrix view [rows, cols] of counted storage. Heads, batch and sequence are folded into rows and
// columns and named in the arguments of the ops that need them; a vector has one row.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/dtype.h"
#include "engine/tensor/ledger.h"

namespace ftune {

// Bytes on a device, entered in a ledger for as long as they live. `data` is null on the meta backend.
class Storage {
 public:
  using Release = std::function<void(std::byte* data, int64_t bytes)>;

  Storage(Ledger& ledger, Category category, int64_t bytes, std::byte* data, Release release)
      : ledger_(ledger), category_(category), bytes_(bytes), data_(data), release_(std::move(release)) {
    number_ = ledger_.Allocated(category_, bytes_);
  }
  ~Storage() {
    ledger_.Freed(number_, category_, bytes_);
    if (release_) release_(data_, bytes_);
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Category category() const { return category_; }
  int64_t number() const { return number_; }  // in the ledger

 private:
  Ledger& ledger_;
  Category category_;
  int64_t bytes_;
  std::byte* data_;
  Release release_;
  int64_t number_;
};

class Tensor {
 public:
  Tensor() = default;
  // A contiguous [rows, cols] at byte `offset` of `storage`. cols is a multiple of the dtype's block size,
  // unless the type is quantised as a whole (IsQuantizedWhole).
  Tensor(std::shared_ptr<Storage> storage, int64_t offset, DType dtype, int64_t rows, int64_t cols)
      : storage_(std::move(storage)),
        offset_(offset),
        dtype_(dtype),
        rows_(rows),
        cols_(cols),
        stride_(cols),
        whole_(IsQuantizedWhole(dtype) ? rows * cols : 0) {}

  bool defined() const { return storage_ != nullptr; }
  DType dtype() const { return dtype_; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  int64_t stride() const { return stride_; }  // elements from one row to the next
  int64_t size() const { return rows_ * cols_; }
  bool contiguous() const { return stride_ == cols_ || rows_ <= 1; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  int64_t offset() const { return offset_; }  // bytes into the storage
  // Of a type that is quantised as a whole, a view keeps the offset of the whole: where in it the view
  // begins, and the whole's size, in values.
  int64_t first() const { return first_; }
  int64_t whole_size() const { return whole_; }

  // Null on the meta backend.
  std::byte* bytes() const { return storage_ && storage_->data() ? storage_->data() + offset_ : nullptr; }
  float* f32() const {
    assert(dtype_ == DType::kF32);
    return reinterpret_cast<float*>(bytes());
  }
  int32_t* i32() const {
    assert(dtype_ == DType::kI32);
    return reinterpret_cast<int32_t*>(bytes());
  }

  // Views of the same storage. Column views of tensors quantised in GGML's blocks start on their boundaries.
  Tensor Rows(int64_t begin, int64_t count) const {
    assert(begin >= 0 && begin + count <= rows_);
    Tensor view = *this;
    view.Advance(begin * stride_);
    view.rows_ = count;
    return view;
  }
  Tensor Cols(int64_t begin, int64_t count) const {
    assert(begin >= 0 && begin + count <= cols_);
    Tensor view = *this;
    view.Advance(begin);
    view.cols_ = count;
    return view;
  }
  // The same elements in another shape; contiguous tensors only.
  Tensor Reshape(int64_t rows, int64_t cols) const {
    assert(contiguous() && rows * cols == size());
    Tensor view = *this;
    view.rows_ = rows;
    view.cols_ = cols;
    view.stride_ = cols;
    return view;
  }

 private:
  void Advance(int64_t elements) {
    if (IsQuantizedWhole(dtype_)) {
      first_ += elements;
    } else {
      offset_ += BytesFor(dtype_, elements);
    }
  }

  std::shared_ptr<Storage> storage_;
  int64_t offset_ = 0;
  DType dtype_ = DType::kF32;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  int64_t stride_ = 0;
  int64_t first_ = 0;
  int64_t whole_ = 0;
};

}  // namespace ftune
