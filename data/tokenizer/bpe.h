// Byte-pair encoding: the kinds that models use, behind one interface.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "data/tokenizer/merge_queue.h"
#include "data/tokenizer/piece_model.h"
#include "data/tokenizer/vocabulary.h"
#include "data/tokenizer/word_cache.h"

namespace ftune {

struct BpeOptions {
  // The piece is bytes, the vocabulary is written in GPT-2's byte-level alphabet (byte_level.h). Otherwise
  // the piece is UTF-8 and so is the vocabulary.
  bool byte_level = false;
  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
  // Where the piece is not bytes: characters that are no token.
  bool byte_fallback = false;      // become tokens <0x00> … <0xFF>, if the vocabulary has them
  std::optional<int32_t> unknown;  // else this one; else they are dropped
  bool fuse_unknown = false;       // neighbouring unknown characters become one token
  std::string continuing_prefix;   // before all but the first character of a piece
  std::string end_suffix;          // behind the last
};

class BpeModel : public PieceModel {
 public:
  // Ids of left and right, and the id they become; in order of rank.
  struct Merge {
    int32_t left, right, result;
  };

  // `vocabulary` outlives the model. No id in `merges` is outside of it.
  static std::unique_ptr<BpeModel> WithMerges(const Vocabulary& vocabulary, std::span<const Merge> merges,
                                              BpeOptions options);
  // As SentencePiece's BPE (Kudo and Richardson, 2018): two neighbours merge if their text is a token; the
  // token of the highest score first. scores[id]; usable[id] is false for tokens that text never becomes
  // (control, byte).
  static std::unique_ptr<BpeModel> WithScores(const Vocabulary& vocabulary, std::span<const float> scores,
                                              const std::vector<bool>& usable, BpeOptions options);
  // As tiktoken: a piece that is a token is that token; two neighbours merge if their bytes are a token, the
  // lowest id first. The vocabulary is in the byte-level alphabet and has each byte.
  static std::unique_ptr<BpeModel> WithRanks(const Vocabulary& vocabulary);

  void Encode(std::string_view piece, ModelScratch& scratch, std::vector<WordToken>& tokens) const override;

 private:
  BpeModel(const Vocabulary& vocabulary, BpeOptions options);
  void FindWholePieces();
  bool MergesStayInWords(std::span<const Merge> merges) const;

  void EncodeWord(std::string_view word, uint32_t offset, MergeScratch& scratch,
                  std::vector<WordToken>& tokens) const;
  void Split(std::string_view word, MergeScratch& scratch) const;
  void SplitCharacters(std::string_view word, std::vector<Symbol>& symbols) const;
  void AppendUnknown(uint32_t begin, uint32_t end, bool& unknown_last, std::vector<Symbol>& symbols) const;
  bool AppendBytes(std::string_view text, uint32_t begin, uint32_t end, std::vector<Symbol>& symbols) const;
  void MergeAll(std::string_view word, MergeScratch& scratch) const;
  void ResolveUnknown(std::string_view word, MergeScratch& scratch) const;
  std::optional<int32_t> UsableToken(std::string_view text) const;
  std::optional<int32_t> WholePiece(std::string_view piece) const;

  const Vocabulary& vocabulary_;
  BpeOptions options_;
  absl::flat_hash_map<uint64_t, MergeRule> merges_;  // by left id << 32 | right id; empty with scores
  std::vector<MergeRule> text_rules_;                // with scores or ranks: by id of the result; else empty
  std::vector<bool> usable_;                         // by id; empty: all
  std::array<int32_t, 256> byte_tokens_;             // the token of each byte, -1 where there is none
  std::vector<std::string> whole_texts_;  // keys of whole_, where they are not the vocabulary's texts
  TextMap<int32_t> whole_;                // with ignore_merges: tokens by the bytes they stand for
  bool words_are_apart_ = false;          // no merge crosses the start of a word (U+2581)
  mutable WordCache cache_;
};

}  // namespace ftune
