// Page-aligned pieces of one piece of memory that collectives work on without copies.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "engine/backend/backend.h"
#include "parallel/comm/communicator.h"

namespace ftune {

class Arena {
 public:
  // Where a piece of so many bytes will be.
  int64_t Reserve(int64_t bytes);
  // Where the piece begins that follows one which ends at `end`.
  static int64_t PlaceAfter(int64_t end);
  int64_t bytes() const { return bytes_; }

  // Zero. Called by all ranks of the group, whose arenas have the same size.
  absl::Status Allocate(Backend& backend, Communicator& group, Category category);
  // [1, count] at `place`; after Allocate.
  Tensor At(int64_t place, DType dtype, int64_t count) const;

 private:
  int64_t bytes_ = 0;
  Tensor memory_;
};

// What a collective is given of a tensor.
Buffer BufferOf(Stream stream, const Tensor& tensor);

}  // namespace ftune
