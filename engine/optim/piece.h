// What is kept for the weights, cut into pieces that are moved between disk and memory as a whole.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/optim/shard.h"

namespace ftune {

// A tensor [1, size] in a piece.
struct PieceTensor {
  std::string_view name;
  DType dtype = DType::kF32;
  int64_t offset = 0;  // in bytes
  int64_t size = 0;
};

// Elements that one call updates: a run or, of an element-wise rule, a part of one.
struct PiecePart {
  const ShardRun* run = nullptr;
  int64_t begin = 0;  // in the block's flat tensor
  int64_t count = 0;
  std::vector<PieceTensor> tensors;  // the master, where the shard has one, then the rule's state
};

struct Piece {
  const Shard* shard = nullptr;
  std::vector<PiecePart> parts;
  int64_t bytes = 0;
};

// In the order in which backward is through with the blocks: from the last to the first. A piece is of one
// shard and has at most `limit` bytes, unless it is one parameter whose rule needs it whole. Pieces refer to
// the shards. Empty where nothing is kept.
std::vector<Piece> CutIntoPieces(const std::vector<Shard>& shards, int64_t limit);

}  // namespace ftune
