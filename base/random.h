// Counter-based random numbers: a draw is a pure function of its coordinates (seed, stream, counter), so it
// is the same on every mesh and after every resume. Philox4x32-10 (Salmon et al., "Parallel random numbers:
// as easy as 1, 2, 3", SC 2011).
#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace ftune {

// One Philox4x32-10 block: 128 random bits from a 64-bit key and a 128-bit counter.
std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high);

// Uniform in [0, 1) with 24 bits.
inline float UniformFloat(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// A sequence of draws for set-up work (shuffles, initial values): `purpose` keeps uses of one seed apart.
class RandomSequence {
 public:
  RandomSequence(uint64_t seed, uint64_t purpose) : seed_(seed), purpose_(purpose) {}
  uint32_t Next();
  float Uniform() { return UniformFloat(Next()); }
  // Uniform in [0, bound), unbiased; bound > 0.
  uint64_t Below(uint64_t bound);

 private:
  uint64_t seed_;
  uint64_t purpose_;
  uint64_t counter_ = 0;
  std::array<uint32_t, 4> block_{};
  int left_ = 0;
};

// Puts the items into a random order (Fisher-Yates).
template <class T>
void Shuffle(std::span<T> items, RandomSequence& random) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.Below(i)]);
}

// A permutation of 0..n-1.
std::vector<int64_t> Permutation(int64_t n, uint64_t seed, uint64_t purpose);

}  // namespace ftune
