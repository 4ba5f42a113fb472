#include "engine/backend/cpu/caching_allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace ftune::cpu {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kLine = 64;

// AddressSanitizer watches the edges of blocks that come from malloc, not of mapped ones.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kMapLarge = false;
#else
constexpr bool kMapLarge = true;
#endif

bool IsMapped(int64_t bytes) { return kMapLarge && bytes >= kPage; }

int64_t RoundUp(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

std::byte* Map(int64_t bytes) {
  // Huge pages need an aligned start: map more and cut the edges off.
  const int64_t slack = bytes >= kHugePage ? kHugePage : 0;
  void* mapped = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* start = static_cast<std::byte*>(mapped);
  if (slack == 0) return start;
  const int64_t before =
      RoundUp(reinterpret_cast<intptr_t>(start), kHugePage) - reinterpret_cast<intptr_t>(start);
  if (before > 0) munmap(start, before);
  if (slack > before) munmap(start + before + bytes, slack - before);
  madvise(start + before, bytes, MADV_HUGEPAGE);  // a hint: the kernel may have none
  return start + before;
}

}  // namespace

CachingAllocator::~CachingAllocator() { Trim(0); }

CachingAllocator::Block CachingAllocator::Allocate(int64_t bytes) {
  bytes = std::max<int64_t>(bytes, kLine);
  if (!IsMapped(bytes)) {
    const int64_t rounded = RoundUp(bytes, bytes < kPage ? kLine : kPage);
    auto* data = static_cast<std::byte*>(std::aligned_alloc(bytes < kPage ? kLine : kPage, rounded));
    if (data == nullptr) throw std::bad_alloc();
    return {data, rounded};
  }

  Block block;
  const auto fit = kept_.lower_bound(bytes);
  if (fit != kept_.end() && fit->first <= bytes + bytes / 8) {
    block = {fit->second, fit->first};
    kept_bytes_ -= block.bytes;
    kept_.erase(fit);
  } else {
    block.bytes = RoundUp(bytes, kPage);
    // What is kept makes room for the new block.
    Trim(std::max<int64_t>(0, peak_requested_bytes_ - live_bytes_ - block.bytes));
    block.data = Map(block.bytes);
    if (block.data == nullptr) {
      Trim(0);
      block.data = Map(block.bytes);
    }
    if (block.data == nullptr) throw std::bad_alloc();
  }
  live_bytes_ += block.bytes;
  requested_bytes_ += bytes;
  peak_requested_bytes_ = std::max(peak_requested_bytes_, requested_bytes_);
  return block;
}

void CachingAllocator::Free(Block block, int64_t requested_bytes) {
  if (!IsMapped(block.bytes)) {
    std::free(block.data);
    return;
  }
  live_bytes_ -= block.bytes;
  requested_bytes_ -= std::max<int64_t>(requested_bytes, kLine);
  kept_.emplace(block.bytes, block.data);
  kept_bytes_ += block.bytes;
  Trim(std::max<int64_t>(0, peak_requested_bytes_ - live_bytes_));
}

void CachingAllocator::Trim(int64_t limit) {
  while (kept_bytes_ > limit) {
    const auto largest = std::prev(kept_.end());
    munmap(largest->second, largest->first);
    kept_bytes_ -= largest->first;
    kept_.erase(largest);
  }
}

}  // namespace ftune::cpu
