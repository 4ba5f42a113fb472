// The Unigram model (Kudo, "Subword Regularization", 2018): of all ways to cut a piece into tokens the one of
// the highest sum of scores, found by Viterbi's algorithm. To the id as huggingface/tokenizers has it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/tokenizer/byte_trie.h"
#include "data/tokenizer/piece_model.h"
#include "data/tokenizer/vocabulary.h"

namespace ftune {

class UnigramModel : public PieceModel {
 public:
  // `vocabulary` outlives the model; scores[id], log probabilities; `unknown` is below the vocabulary's size.
  // What no token covers costs 10 more than the least likely token, character for character; neighbouring
  // characters of that kind become one unknown token, or with `byte_fallback` their bytes' tokens <0x00> …
  // <0xFF> if the vocabulary has them.
  UnigramModel(const Vocabulary& vocabulary, std::vector<double> scores, int32_t unknown, bool byte_fallback);

  // Linear in the piece's length, for the longest token there is.
  void Encode(std::string_view piece, ModelScratch& scratch, std::vector<WordToken>& tokens) const override;

 private:
  void FindBestPaths(std::string_view piece, std::vector<BestPath>& paths) const;
  void AppendUnknown(std::string_view piece, uint32_t begin, uint32_t end,
                     std::vector<WordToken>& tokens) const;

  const Vocabulary& vocabulary_;
  std::vector<double> scores_;
  int32_t unknown_;
  double unknown_score_ = 0;
  bool byte_fallback_;
  std::array<int32_t, 256> byte_tokens_;  // -1 where there is none
  ByteTrie trie_;                         // ids by text
  mutable WordCache cache_;
};

}  // namespace ftune
