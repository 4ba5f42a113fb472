#include "engine/shard/arena.h"

#include <memory>
#include <utility>

#include "base/error.h"

namespace ftune {

int64_t Arena::Reserve(int64_t bytes) {
  const int64_t place = bytes_;
  bytes_ = PlaceAfter(place + bytes);
  return place;
}

int64_t Arena::PlaceAfter(int64_t end) {
  constexpr int64_t kPage = 4096;
  return (end + kPage - 1) / kPage * kPage;
}

absl::Status Arena::Allocate(Backend& backend, Communicator& group, Category category) {
  if (bytes_ == 0) return absl::OkStatus();
  SharedBytes shared;
  if (backend.computes()) {
    FTUNE_ASSIGN_OR_RETURN(shared, group.Allocate(bytes_));
  }
  memory_ = backend.Adopt(std::move(shared.data), bytes_, category);
  return absl::OkStatus();
}

Tensor Arena::At(int64_t place, DType dtype, int64_t count) const {
  return Tensor(memory_.storage(), place, dtype, 1, count);
}

Buffer BufferOf(Stream stream, const Tensor& tensor) {
  return {tensor.bytes(), tensor.size(), tensor.dtype(), stream};
}

}  // namespace ftune
