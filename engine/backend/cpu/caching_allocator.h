// The CPU backend's memory. Large blocks are mapped page-aligned and kept when freed, so that a training step
// does not fault its pages in again; live and kept blocks together never exceed what was live at the highest
// moment, so that the process stays as large as its ledger says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace ftune::cpu {

// Used by one thread at a time.
class CachingAllocator {
 public:
  struct Block {
    std::byte* data = nullptr;
    int64_t bytes = 0;  // at least what was asked
  };

  CachingAllocator() = default;
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // 64-byte aligned below a page, page-aligned from there on; uninitialised. Throws std::bad_alloc when the
  // system has no memory left, having given back all that was kept.
  Block Allocate(int64_t bytes);
  void Free(Block block, int64_t requested_bytes);

  int64_t kept_bytes() const { return kept_bytes_; }

 private:
  // Gives kept blocks back to the system, largest first, until at most `limit` bytes are kept.
  void Trim(int64_t limit);

  std::multimap<int64_t, std::byte*> kept_;  // by size
  int64_t kept_bytes_ = 0;
  int64_t live_bytes_ = 0;       // of whole blocks
  int64_t requested_bytes_ = 0;  // of those, what was asked for
  int64_t peak_requested_bytes_ = 0;
};

}  // namespace ftune::cpu
