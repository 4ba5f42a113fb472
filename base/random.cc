#include "base/random.h"

namespace ftune {

std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
                               static_cast<uint32_t>(counter_high),
                               static_cast<uint32_t>(counter_high >> 32)};
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

uint32_t RandomSequence::Next() {
  if (left_ == 0) {
    block_ = Philox(seed_, counter_++, purpose_);
    left_ = 4;
  }
  return block_[4 - left_--];
}

uint64_t RandomSequence::Below(uint64_t bound) {
  // Rejection keeps the draw unbiased: values at or above the largest multiple of `bound` are thrown away.
  const uint64_t limit = ~uint64_t{0} - ~uint64_t{0} % bound;
  for (;;) {
    const uint64_t high = Next();
    const uint64_t value = high << 32 | Next();
    if (value < limit) return value % bound;
  }
}

std::vector<int64_t> Permutation(int64_t n, uint64_t seed, uint64_t purpose) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  RandomSequence random(seed, purpose);
  Shuffle(std::span(order), random);
  return order;
}

}  // namespace ftune
