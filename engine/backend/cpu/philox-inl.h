// Uniform draws for the columns of a row (see draws.h); compiled once for each instruction set.

#if defined(FTUNE_ENGINE_BACKEND_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FTUNE_ENGINE_BACKEND_CPU_PHILOX_INL_H_
#undef FTUNE_ENGINE_BACKEND_CPU_PHILOX_INL_H_
#else
#define FTUNE_ENGINE_BACKEND_CPU_PHILOX_INL_H_
#endif

#include <algorithm>

#include "base/random.h"
#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// The full products of 32-bit lanes with a constant, as high and low halves.
HWY_INLINE void MultiplyWide(VU a, uint32_t factor, VU& high, VU& low) {
  const hn::Repartition<uint64_t, U32> d64;
  const VU factors = hn::Set(U32(), factor);
  const auto even = hn::MulEven(a, factors);
  const auto odd = hn::MulEven(hn::BitCast(U32(), hn::ShiftRight<32>(hn::BitCast(d64, a))), factors);
  low = hn::OddEven(hn::BitCast(U32(), hn::ShiftLeft<32>(odd)), hn::BitCast(U32(), even));
  high = hn::OddEven(hn::BitCast(U32(), odd), hn::BitCast(U32(), hn::ShiftRight<32>(even)));
}

// Philox4x32-10 of base/random.h, one block a lane: counter (token, first_group + lane).
HWY_INLINE void PhiloxBlocks(uint64_t key, uint64_t token, uint32_t first_group, uint32_t* draws) {
  VU c0 = hn::Set(U32(), static_cast<uint32_t>(token));
  VU c1 = hn::Set(U32(), static_cast<uint32_t>(token >> 32));
  VU c2 = hn::Iota(U32(), first_group);
  VU c3 = hn::Zero(U32());
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    VU high0, low0, high1, low1;
    MultiplyWide(c0, 0xD2511F53u, high0, low0);
    MultiplyWide(c2, 0xCD9E8D57u, high1, low1);
    c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(U32(), k0));
    c1 = low1;
    c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(U32(), k1));
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  hn::StoreInterleaved4(c0, c1, c2, c3, U32(), draws);
}

#else

HWY_INLINE void PhiloxBlocks(uint64_t key, uint64_t token, uint32_t first_group, uint32_t* draws) {
  const auto block = Philox(key, token, first_group);
  std::copy(block.begin(), block.end(), draws);
}

#endif

// op(access, i, uniform) for the vectors that make up [0, cols) of a row, which are columns first_column + i
// of the token: uniform in [0, 1), 24 bits.
template <class Op>
HWY_INLINE void ForUniform(uint64_t key, uint64_t token, int64_t first_column, int64_t cols, const Op& op) {
  HWY_ALIGN uint32_t draws[64 + 4];
  const int64_t run = 4 * Lanes();
  const int64_t skipped = first_column % 4;  // of the first group of four
  for (int64_t begin = 0; begin < cols; begin += run) {
    const auto group = static_cast<uint32_t>((first_column + begin) / 4);
    PhiloxBlocks(key, token, group, draws);
    if (skipped != 0) {  // the run ends in a group of its own
      HWY_ALIGN uint32_t next[64];
      PhiloxBlocks(key, token, group + static_cast<uint32_t>(Lanes()), next);
      std::copy_n(next, 4, draws + run);
    }
    ForVectors(std::min(run, cols - begin), [&](auto part, int64_t i) HWY_ATTR {
      const VI bits = hn::BitCast(I32(), hn::ShiftRight<8>(hn::LoadU(U32(), draws + skipped + i)));
      op(part, begin + i, hn::Mul(hn::ConvertTo(F32(), bits), Set(0x1p-24f)));
    });
  }
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
