#include "parallel/comm/counting_transport.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "parallel/comm/single_transport.h"

namespace ftune {
namespace {

template <class T>
void Multiply(const Buffer& buffer, int factor) {
  for (int64_t i = 0; i < buffer.count; ++i) {
    T value;
    std::byte* const at = buffer.data + i * static_cast<int64_t>(sizeof(T));
    std::memcpy(&value, at, sizeof(T));
    value *= static_cast<T>(factor);
    std::memcpy(at, &value, sizeof(T));
  }
}

class CountingTransport final : public Transport {
 public:
  CountingTransport(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool returns_at_once() const override { return true; }

  absl::Status Run(const Call& call) override {
    FTUNE_RETURN_IF_ERROR(status());
    if (call.in.data == nullptr || call.out.data == nullptr) return absl::OkStatus();
    switch (call.kind) {
      case CallKind::kAllReduce:
        if (call.op == ReduceOp::kSum) AddUp(call.out);
        break;
      case CallKind::kReduceScatter: {
        const int64_t size = BytesFor(call.in.dtype, 1);
        const int64_t begin = Offsets(call.counts)[rank_] * size;
        std::memmove(call.out.data, call.in.data + begin, static_cast<size_t>(call.out.bytes()));
        if (call.op == ReduceOp::kSum) AddUp(call.out);
        break;
      }
      case CallKind::kAllGather:
        Spread(call);
        break;
      default:
        break;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<SharedBytes> Allocate(int64_t bytes) override { return AllocatePages(bytes); }

  absl::StatusOr<std::unique_ptr<Transport>> Split(const std::vector<int>& members) override {
    const auto own = std::find(members.begin(), members.end(), rank_);
    return MakeCountingTransport(static_cast<int>(own - members.begin()), static_cast<int>(members.size()));
  }

  void set_timeout(absl::Duration) override {}
  void Abort(const absl::Status& status) override {
    const std::lock_guard lock(mutex_);
    status_.Update(status);
  }
  absl::Status status() const override {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  void AddUp(const Buffer& buffer) const {
    if (buffer.dtype == DType::kI64) Multiply<int64_t>(buffer, size_);
    if (buffer.dtype == DType::kF64) Multiply<double>(buffer, size_);
    if (buffer.dtype == DType::kF32) Multiply<float>(buffer, size_);
  }

  // Shares that differ in size have as much of this rank's as fits.
  void Spread(const Call& call) const {
    const int64_t size = BytesFor(call.out.dtype, 1);
    const std::vector<int64_t> offsets = Offsets(call.counts);
    const int64_t own = call.counts[rank_];
    std::memmove(call.out.data + offsets[rank_] * size, call.in.data, static_cast<size_t>(own * size));
    for (int other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      const int64_t count = std::min(own, call.counts[other]);
      std::memcpy(call.out.data + offsets[other] * size, call.out.data + offsets[rank_] * size,
                  static_cast<size_t>(count * size));
    }
  }

  int rank_, size_;
  mutable std::mutex mutex_;
  absl::Status status_;
};

}  // namespace

std::unique_ptr<Transport> MakeCountingTransport(int rank, int size) {
  return std::make_unique<CountingTransport>(rank, size);
}

}  // namespace ftune
