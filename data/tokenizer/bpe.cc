#include "data/tokenizer/bpe.h"

#include <numeric>

#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/byte_tokens.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

constexpr std::string_view kWordStart = "\xE2\x96\x81";  // U+2581, SentencePiece's space
constexpr int32_t kNoToken = -1;

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

std::array<int32_t, 256> ByteLevelTokens(const Vocabulary& vocabulary) {
  std::array<int32_t, 256> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = ToByteLevel(std::string(1, static_cast<char>(byte)));
    tokens[byte] = vocabulary.Find(text).value_or(kNoToken);
  }
  return tokens;
}

}  // namespace

BpeModel::BpeModel(const Vocabulary& vocabulary, BpeOptions options)
    : vocabulary_(vocabulary),
      options_(std::move(options)),
      byte_tokens_(options_.byte_level ? ByteLevelTokens(vocabulary) : FindByteTokens(vocabulary)) {}

std::unique_ptr<BpeModel> BpeModel::WithMerges(const Vocabulary& vocabulary, std::span<const Merge> merges,
                                               BpeOptions options) {
  auto model = std::unique_ptr<BpeModel>(new BpeModel(vocabulary, std::move(options)));
  model->merges_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    model->merges_[PairKey(merges[rank].left, merges[rank].right)] = {static_cast<uint32_t>(rank),
                                                                      merges[rank].result};
  }
  if (model->options_.ignore_merges) model->FindWholePieces();
  model->words_are_apart_ = model->MergesStayInWords(merges);
  return model;
}

std::unique_ptr<BpeModel> BpeModel::WithScores(const Vocabulary& vocabulary, std::span<const float> scores,
                                               const std::vector<bool>& usable, BpeOptions options) {
  auto model = std::unique_ptr<BpeModel>(new BpeModel(vocabulary, std::move(options)));
  model->usable_ = usable;
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
  model->text_rules_.resize(scores.size());
  uint32_t rank = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && scores[order[i]] != scores[order[i - 1]]) ++rank;  // equal scores, equal ranks
    model->text_rules_[order[i]] = {rank, order[i]};
  }
  std::vector<Merge> results;  // any usable token may be a merge's result
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (usable[id]) results.push_back({id, id, id});
  }
  model->words_are_apart_ = model->MergesStayInWords(results);
  return model;
}

std::unique_ptr<BpeModel> BpeModel::WithRanks(const Vocabulary& vocabulary) {
  auto model =
      std::unique_ptr<BpeModel>(new BpeModel(vocabulary, {.byte_level = true, .ignore_merges = true}));
  model->text_rules_.resize(static_cast<size_t>(vocabulary.size()));
  for (int32_t id = 0; id < vocabulary.size(); ++id) model->text_rules_[id] = {static_cast<uint32_t>(id), id};
  model->FindWholePieces();
  return model;
}

void BpeModel::FindWholePieces() {
  if (options_.byte_level) {
    whole_texts_.resize(vocabulary_.size());
    for (int32_t id = 0; id < vocabulary_.size(); ++id) {
      whole_texts_[id] = FromByteLevel(vocabulary_.Text(id)).value_or("");
    }
  }
  whole_.reserve(vocabulary_.size());
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string& text = options_.byte_level ? whole_texts_[id] : vocabulary_.Text(id);
    if (!text.empty()) whole_.emplace(text, id);
  }
}

// Whether text may be cut before each word start without a change of the result: then the words of a document
// can be found in the cache although the model does not split it.
bool BpeModel::MergesStayInWords(std::span<const Merge> merges) const {
  if (options_.byte_level || options_.ignore_merges || !options_.continuing_prefix.empty() ||
      !options_.end_suffix.empty() || !UsableToken(kWordStart)) {
    return false;
  }
  for (const Merge& merge : merges) {
    std::string_view text = vocabulary_.Text(merge.result);
    while (text.starts_with(kWordStart)) text.remove_prefix(kWordStart.size());
    if (text.find(kWordStart) != text.npos) return false;
  }
  return true;
}

std::optional<int32_t> BpeModel::UsableToken(std::string_view text) const {
  const auto id = vocabulary_.Find(text);
  if (!id || (!usable_.empty() && !usable_[*id])) return std::nullopt;
  return id;
}

std::optional<int32_t> BpeModel::WholePiece(std::string_view piece) const {
  const auto found = whole_.find(piece);
  if (found == whole_.end()) return std::nullopt;
  return found->second;
}

void BpeModel::Encode(std::string_view piece, ModelScratch& scratch, std::vector<WordToken>& tokens) const {
  if (!words_are_apart_) return EncodeWord(piece, 0, scratch.merge, tokens);
  size_t begin = 0;
  while (begin < piece.size()) {
    size_t end = begin;
    while (piece.substr(end).starts_with(kWordStart)) end += kWordStart.size();
    end = std::min(piece.find(kWordStart, end), piece.size());
    EncodeWord(piece.substr(begin, end - begin), static_cast<uint32_t>(begin), scratch.merge, tokens);
    begin = end;
  }
}

void BpeModel::EncodeWord(std::string_view word, uint32_t offset, MergeScratch& scratch,
                          std::vector<WordToken>& tokens) const {
  const auto append = [&](const WordToken& token) {
    tokens.push_back({token.id, offset + token.begin, offset + token.end});
  };
  if (options_.ignore_merges) {
    const auto whole = WholePiece(word);
    if (whole) return append({*whole, 0, static_cast<uint32_t>(word.size())});
  }
  const bool cached = word.size() <= WordCache::kMaxWordBytes;
  const uint64_t hash = cached ? TextHash()(word) : 0;
  std::span<const WordToken> known;
  if (cached && cache_.Find(word, hash, &known)) {
    for (const WordToken& token : known) append(token);
    return;
  }
  Split(word, scratch);
  MergeAll(word, scratch);
  if (!text_rules_.empty()) ResolveUnknown(word, scratch);
  const size_t before = tokens.size();
  for (const Symbol& symbol : scratch.symbols) {
    if (symbol.begin != symbol.end) tokens.push_back({symbol.id, symbol.begin, symbol.end});
  }
  const std::span<WordToken> result = std::span(tokens).subspan(before);
  if (cached) cache_.Insert(word, hash, result);
  for (WordToken& token : result) {
    token.begin += offset;
    token.end += offset;
  }
}

// The word's first symbols: its bytes or its characters.
void BpeModel::Split(std::string_view word, MergeScratch& scratch) const {
  scratch.symbols.clear();
  if (!options_.byte_level) return SplitCharacters(word, scratch.symbols);
  bool unknown_last = false;
  for (uint32_t i = 0; i < word.size(); ++i) {
    const int32_t id = byte_tokens_[static_cast<uint8_t>(word[i])];
    if (id == kNoToken) {
      AppendUnknown(i, i + 1, unknown_last, scratch.symbols);
      continue;
    }
    scratch.symbols.push_back({id, i, i + 1});
    unknown_last = false;
  }
}

// `unknown_last`: the last symbol is an unknown one, to fuse with.
void BpeModel::AppendUnknown(uint32_t begin, uint32_t end, bool& unknown_last,
                             std::vector<Symbol>& symbols) const {
  if (!options_.unknown) return;
  if (unknown_last && options_.fuse_unknown) {
    symbols.back().end = end;
  } else {
    symbols.push_back({*options_.unknown, begin, end});
  }
  unknown_last = true;
}

void BpeModel::SplitCharacters(std::string_view word, std::vector<Symbol>& symbols) const {
  bool unknown_last = false;
  std::string decorated;
  for (uint32_t begin = 0; begin < word.size();) {
    const uint32_t end = begin + static_cast<uint32_t>(Utf8Length(word[begin]));
    std::string_view text = word.substr(begin, end - begin);
    const bool prefix = begin > 0 && !options_.continuing_prefix.empty();
    const bool suffix = end == word.size() && !options_.end_suffix.empty();
    if (prefix || suffix) {
      decorated = prefix ? options_.continuing_prefix : "";
      decorated.append(text);
      if (suffix) decorated += options_.end_suffix;
      text = decorated;
    }
    const auto id = UsableToken(text);
    if (id) {
      symbols.push_back({*id, begin, end});
      unknown_last = false;
    } else if (!text_rules_.empty()) {
      symbols.push_back({kNoToken, begin, end});  // may yet become part of a token
    } else if (options_.byte_fallback && AppendBytes(text, begin, end, symbols)) {
      unknown_last = false;
    } else {
      AppendUnknown(begin, end, unknown_last, symbols);
    }
    begin = end;
  }
}

// The tokens of the bytes of `text`, which stands for bytes [begin, end) of the word; false if the vocabulary
// lacks one.
bool BpeModel::AppendBytes(std::string_view text, uint32_t begin, uint32_t end,
                           std::vector<Symbol>& symbols) const {
  for (const char byte : text) {
    if (byte_tokens_[static_cast<uint8_t>(byte)] == kNoToken) return false;
  }
  const bool one_to_one = text.size() == end - begin;
  for (uint32_t i = 0; i < text.size(); ++i) {
    const int32_t id = byte_tokens_[static_cast<uint8_t>(text[i])];
    symbols.push_back({id, one_to_one ? begin + i : begin, one_to_one ? begin + i + 1 : end});
  }
  return true;
}

void BpeModel::MergeAll(std::string_view word, MergeScratch& scratch) const {
  if (text_rules_.empty()) {
    MergeSymbols(scratch, [this](const Symbol& left, const Symbol& right) -> const MergeRule* {
      const auto rule = merges_.find(PairKey(left.id, right.id));
      return rule == merges_.end() ? nullptr : &rule->second;
    });
  } else {
    MergeSymbols(scratch, [this, word](const Symbol& left, const Symbol& right) -> const MergeRule* {
      const std::string_view text = word.substr(left.begin, right.end - left.begin);
      const auto id = options_.byte_level ? WholePiece(text) : UsableToken(text);
      return id ? &text_rules_[*id] : nullptr;
    });
  }
}

// With rules by text, what became part of no token is resolved after the merges.
void BpeModel::ResolveUnknown(std::string_view word, MergeScratch& scratch) const {
  std::vector<Symbol> resolved;
  resolved.reserve(scratch.symbols.size());
  bool unknown_last = false;
  for (const Symbol& symbol : scratch.symbols) {
    if (symbol.begin == symbol.end) continue;
    if (symbol.id != kNoToken) {
      resolved.push_back(symbol);
      unknown_last = false;
    } else if (options_.byte_fallback && AppendBytes(word.substr(symbol.begin, symbol.end - symbol.begin),
                                                     symbol.begin, symbol.end, resolved)) {
      unknown_last = false;
    } else {
      AppendUnknown(symbol.begin, symbol.end, unknown_last, resolved);
    }
  }
  scratch.symbols = std::move(resolved);
}

}  // namespace ftune
