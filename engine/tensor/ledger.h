// The ledger of memory: every allocation of the engine is entered with its category, on every backend. What
// the log, the plan and the checkpoints say about memory comes from here.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ftune {

enum class Category : uint8_t { kWeights, kGradients, kOptimizer, kActivations, kBuffers, kCommunication };
inline constexpr int kCategories = 6;
std::string_view Name(Category category);

// Bytes per category.
struct MemoryUse {
  std::array<int64_t, kCategories> bytes{};

  int64_t operator[](Category category) const { return bytes[static_cast<size_t>(category)]; }
  int64_t& operator[](Category category) { return bytes[static_cast<size_t>(category)]; }
  int64_t total() const;
  bool operator==(const MemoryUse&) const = default;
};

// What an allocation of `bytes` occupies: whole cache lines below a page, whole pages above.
int64_t AllocationBytes(int64_t bytes);

// Hears of each entry, in the thread that makes it, after the ledger has counted it.
class LedgerListener {
 public:
  virtual ~LedgerListener() = default;
  virtual void OnAllocated(int64_t number, Category category, int64_t bytes) = 0;
  virtual void OnFreed(int64_t number) = 0;
};

// Used by one compute thread (a rank's); not thread-safe.
class Ledger {
 public:
  // → the allocation's number, counted from 1, by which it is freed.
  int64_t Allocated(Category category, int64_t bytes);
  void Freed(int64_t number, Category category, int64_t bytes);

  // Outlives its last entry; null: nobody listens.
  void set_listener(LedgerListener* listener) { listener_ = listener; }

  const MemoryUse& current() const { return current_; }
  // The categories at the moment when their total was highest since construction or ResetPeak.
  const MemoryUse& peak() const { return peak_; }
  void ResetPeak() { peak_ = current_; }
  int64_t allocations() const { return allocations_; }
  // Order-sensitive hash of all entries: two runs with equal digests allocated and freed the same, in the
  // same order.
  uint64_t digest() const { return digest_; }

 private:
  void Enter(uint64_t kind, Category category, int64_t bytes);

  MemoryUse current_;
  MemoryUse peak_;
  int64_t allocations_ = 0;
  uint64_t digest_ = 0xcbf29ce484222325u;
  LedgerListener* listener_ = nullptr;
};

}  // namespace ftune
