// SentencePiece's BPE keeps a score per piece; tokenizer.json wants a ranked list of merges.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ftune {

struct ScoredPiece {
  std::string_view text;  // UTF-8
  float score = 0;
  size_t id = 0;
};

// Each way to make a piece from two others, "left right", best score first, then longest left half, then
// longest right half, then in the order of the pieces and of the halves' ids: transformers' generate_merges
// (tokenization_utils_base.py).
std::vector<std::string> SentencePieceMerges(std::span<const ScoredPiece> pieces);

}  // namespace ftune
