#include "engine/tensor/ledger.h"

#include <numeric>

namespace ftune {

std::string_view Name(Category category) {
  static constexpr std::array<std::string_view, kCategories> kNames = {
      "weights", "gradients", "optimizer", "activations", "buffers", "communication"};
  return kNames[static_cast<size_t>(category)];
}

int64_t MemoryUse::total() const { return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}); }

int64_t AllocationBytes(int64_t bytes) {
  constexpr int64_t kLine = 64;
  constexpr int64_t kPage = 4096;
  const int64_t unit = bytes < kPage ? kLine : kPage;
  return (bytes + unit - 1) / unit * unit;
}

int64_t Ledger::Allocated(Category category, int64_t bytes) {
  current_[category] += bytes;
  ++allocations_;
  Enter(1, category, bytes);
  if (current_.total() > peak_.total()) peak_ = current_;
  if (listener_ != nullptr) listener_->OnAllocated(allocations_, category, bytes);
  return allocations_;
}

void Ledger::Freed(int64_t number, Category category, int64_t bytes) {
  current_[category] -= bytes;
  Enter(2, category, bytes);
  if (listener_ != nullptr) listener_->OnFreed(number);
}

void Ledger::Enter(uint64_t kind, Category category, int64_t bytes) {
  // FNV-1a over whole words.
  for (const uint64_t word : {kind, static_cast<uint64_t>(category), static_cast<uint64_t>(bytes)}) {
    digest_ = (digest_ ^ word) * 0x100000001b3u;
  }
}

}  // namespace ftune
