// The one place where updates meet weights: whatever their type and whether they have a master copy, an
// update sees f32.
#pragma once

#include <algorithm>

#include "engine/backend/cpu/parallel.h"
#include "engine/backend/optimizer_ops.h"

namespace ftune::cpu {

// Elements of a piece: its low-precision copy is made from the cache. Whole blocks of 8-bit state.
inline constexpr int64_t kUpdatePiece = 4096;
static_assert(kUpdatePiece % kStateBlock == 0 && kElementGrain % kUpdatePiece == 0);

// bf16[i] = values[i], rounded up or down with probabilities that make it right on average; infinities and
// NaN stay. Element i draws 16 bits from (key, first + i); indices reach 2^34.
void RoundStochastically(uint64_t key, int64_t first, const float* values, int64_t count, uint16_t* bf16);
uint64_t RoundingKey(const RoundingDraws& draws);

// Elements [begin, begin + count) of the weights as f32.
class WeightPiece {
 public:
  WeightPiece(const UpdateArgs& args, int64_t begin, int64_t count);
  float* data() { return data_; }
  // Puts the new values where they belong.
  void Store(uint64_t rounding_key);

 private:
  const UpdateArgs& args_;
  int64_t begin_;
  int64_t count_;
  float* data_;
  alignas(64) float widened_[kUpdatePiece];
};

// 1 - learning rate * weight decay: what decoupled decay leaves of a weight.
inline float Keep(const UpdateArgs& args) {
  return static_cast<float>(1.0 - static_cast<double>(args.learning_rate) * args.weight_decay);
}

// update(begin, count, weights) over pieces of all elements; it overwrites `weights`.
template <class Update>
void UpdatePieces(ThreadPool& pool, const UpdateArgs& args, const Update& update) {
  const uint64_t key = RoundingKey(args.draws);
  ParallelRanges(pool, args.weights.size(), kElementGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kUpdatePiece) {
      const int64_t count = std::min(kUpdatePiece, end - i);
      WeightPiece piece(args, i, count);
      update(i, count, piece.data());
      piece.Store(key);
    }
  });
}

}  // namespace ftune::cpu
