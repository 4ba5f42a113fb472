#include "data/tokenizer/unigram.h"

#include <algorithm>
#include <limits>

#include "data/tokenizer/byte_tokens.h"
#include "data/tokenizer/utf8.h"

namespace ftune {

UnigramModel::UnigramModel(const Vocabulary& vocabulary, std::vector<double> scores, int32_t unknown,
                           bool byte_fallback)
    : vocabulary_(vocabulary),
      scores_(std::move(scores)),
      unknown_(unknown),
      byte_fallback_(byte_fallback),
      byte_tokens_(FindByteTokens(vocabulary)) {
  constexpr double kUnknownPenalty = 10;
  double least = std::numeric_limits<double>::infinity();
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    trie_.Add(vocabulary.Text(id), id, /*replace=*/true);
    least = std::min(least, scores_[id]);
  }
  unknown_score_ = least - kUnknownPenalty;
}

void UnigramModel::Encode(std::string_view piece, ModelScratch& scratch,
                          std::vector<WordToken>& tokens) const {
  const bool cached = piece.size() <= WordCache::kMaxWordBytes;
  const uint64_t hash = cached ? TextHash()(piece) : 0;
  std::span<const WordToken> known;
  if (cached && cache_.Find(piece, hash, &known)) {
    tokens.insert(tokens.end(), known.begin(), known.end());
    return;
  }
  FindBestPaths(piece, scratch.paths);
  const size_t before = tokens.size();
  // From the end back to the start, then turned round.
  for (auto end = static_cast<uint32_t>(piece.size()); end > 0;) {
    const BestPath* path = &scratch.paths[end];
    if (path->id != unknown_) {
      tokens.push_back({path->id, path->begin, end});
      end = path->begin;
      continue;
    }
    const uint32_t unknown_end = end;
    while (end > 0 && scratch.paths[end].id == unknown_) end = scratch.paths[end].begin;
    AppendUnknown(piece, end, unknown_end, tokens);
  }
  std::reverse(tokens.begin() + static_cast<ptrdiff_t>(before), tokens.end());
  if (cached) cache_.Insert(piece, hash, std::span(tokens).subspan(before));
}

void UnigramModel::FindBestPaths(std::string_view piece, std::vector<BestPath>& paths) const {
  paths.assign(piece.size() + 1, {});
  const auto offer = [&paths](uint32_t begin, uint32_t end, int32_t id, double score) {
    const double total = score + paths[begin].score;
    if (paths[end].id < 0 || total > paths[end].score) paths[end] = {total, begin, id};
  };
  for (uint32_t begin = 0; begin < piece.size();) {
    const auto next = begin + static_cast<uint32_t>(Utf8Length(piece[begin]));
    bool covered = false;  // the character by itself is a token
    trie_.ForEachPrefix(piece.substr(begin), [&](size_t length, int32_t id) {
      const auto end = begin + static_cast<uint32_t>(length);
      offer(begin, end, id, scores_[id]);
      covered = covered || end == next;
    });
    if (!covered) offer(begin, next, unknown_, unknown_score_);
    begin = next;
  }
}

// In reverse, as Encode collects them.
void UnigramModel::AppendUnknown(std::string_view piece, uint32_t begin, uint32_t end,
                                 std::vector<WordToken>& tokens) const {
  const std::string_view text = piece.substr(begin, end - begin);
  const auto whole = vocabulary_.Find(text);  // unknown characters may together be a token of a low score
  const bool as_bytes = !whole && byte_fallback_ && std::all_of(text.begin(), text.end(), [this](char byte) {
    return byte_tokens_[static_cast<uint8_t>(byte)] >= 0;
  });
  if (!as_bytes) {
    tokens.push_back({whole.value_or(unknown_), begin, end});
    return;
  }
  for (uint32_t i = end; i > begin; --i) {
    tokens.push_back({byte_tokens_[static_cast<uint8_t>(piece[i - 1])], i - 1, i});
  }
}

}  // namespace ftune
