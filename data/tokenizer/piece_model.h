// What turns one piece of pre-tokenised text into tokens.
#pragma once

#include <string_view>
#include <vector>

#include "data/tokenizer/merge_queue.h"
#include "data/tokenizer/word_cache.h"

namespace ftune {

// The best path to a place in a piece (unigram.h).
struct BestPath {
  double score = 0;
  uint32_t begin = 0;  // of the last token on it
  int32_t id = -1;     // of that token; -1: no path yet
};

// The memory of a model, kept from piece to piece.
struct ModelScratch {
  MergeScratch merge;
  std::vector<BestPath> paths;
};

// Encode is thread-safe.
class PieceModel {
 public:
  virtual ~PieceModel() = default;
  // The longest piece that Encode takes, in bytes.
  static constexpr size_t kMaxPieceBytes = 1 << 30;
  // Appends to `tokens`.
  virtual void Encode(std::string_view piece, ModelScratch& scratch,
                      std::vector<WordToken>& tokens) const = 0;
};

}  // namespace ftune
