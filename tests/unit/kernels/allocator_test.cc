#include <vector>

#include "engine/backend/cpu/caching_allocator.h"
#include "tests/unit/kernels/kernels.h"

namespace ftune::cpu {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

int64_t Address(const CachingAllocator::Block& block) { return reinterpret_cast<intptr_t>(block.data); }

TEST_CASE("blocks are aligned and writable to their last byte") {
  CachingAllocator allocator;
  for (const int64_t bytes :
       {int64_t{0}, int64_t{1}, int64_t{64}, int64_t{4032}, int64_t{4096}, int64_t{12288}, 3 * kMiB}) {
    CAPTURE(bytes);
    const auto block = allocator.Allocate(bytes);
    CHECK(block.bytes >= bytes);
    CHECK(Address(block) % 64 == 0);
    if (bytes >= 4096) CHECK(Address(block) % 4096 == 0);
    std::memset(block.data, 1, bytes);
    allocator.Free(block, bytes);
  }
}

#if !defined(__SANITIZE_ADDRESS__)

TEST_CASE("a freed block serves requests of up to an eighth less") {
  CachingAllocator allocator;
  const auto first = allocator.Allocate(9 * kMiB);
  allocator.Free(first, 9 * kMiB);
  CHECK(allocator.kept_bytes() == 9 * kMiB);
  const auto second = allocator.Allocate(8 * kMiB);
  CHECK(second.data == first.data);
  CHECK(allocator.kept_bytes() == 0);
  allocator.Free(second, 8 * kMiB);
  const auto third = allocator.Allocate(4 * kMiB);  // too small for it
  CHECK(third.bytes == 4 * kMiB);
  allocator.Free(third, 4 * kMiB);
}

TEST_CASE("live and kept blocks never exceed what was live at the highest moment") {
  CachingAllocator allocator;
  std::vector<CachingAllocator::Block> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(allocator.Allocate(2 * kMiB));
  for (const auto& block : blocks) allocator.Free(block, 2 * kMiB);
  CHECK(allocator.kept_bytes() == 20 * kMiB);
  const auto large = allocator.Allocate(15 * kMiB);
  CHECK(allocator.kept_bytes() <= 5 * kMiB);
  const auto larger = allocator.Allocate(30 * kMiB);
  CHECK(allocator.kept_bytes() == 0);
  allocator.Free(large, 15 * kMiB);
  CHECK(allocator.kept_bytes() == 15 * kMiB);
  allocator.Free(larger, 30 * kMiB);
}

#endif

TEST_CASE("tensors outlive scratch and backend order") {
  test::Device device;
  const Tensor x = device.Random(300, 300, 1);
  const int64_t before = device.backend.ledger().current().total();
  {
    const Tensor y = device.Empty(1000, 1000);
    CHECK(device.backend.ledger().current().total() == before + 4001792);  // whole pages
  }
  CHECK(device.backend.ledger().current().total() == before);
}

}  // namespace
}  // namespace ftune::cpu
