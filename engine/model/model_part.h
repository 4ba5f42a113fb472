// Which of a model's blocks a rank has: the stages of a pipeline that are its own, each a run of neighbours.
#pragma once

#include <cstddef>
#include <vector>

namespace ftune {

// Blocks are numbered in the whole model: 0 is the embedding, the last one the head.
struct StageBlocks {
  int stage = 0;
  size_t first = 0;
  size_t count = 0;
};

// In ascending order; empty: all blocks, as one stage.
using ModelPart = std::vector<StageBlocks>;

}  // namespace ftune
