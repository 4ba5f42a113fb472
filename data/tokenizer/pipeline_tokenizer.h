// A tokenizer put together from parts, in the order of huggingface/tokenizers: added tokens are cut out of
// the raw text, the rest is normalised, added tokens are cut out of that, the rest is split into pieces, each
// piece goes through the model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/decoder.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/piece_model.h"
#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_config.h"
#include "data/tokenizer/vocabulary.h"

namespace ftune {

struct PipelineParts {
  std::unique_ptr<Vocabulary> vocabulary;  // of the model; added tokens may be in it or not
  std::unique_ptr<PieceModel> model;       // over *vocabulary
  std::vector<AddedToken> added;           // ids below kMaxVocabulary
  std::vector<std::unique_ptr<Normalizer>> normalizers;
  PreTokenizerSteps pre_tokenizers;
  std::vector<std::unique_ptr<Decoder>> decoders;  // none: tokens are joined with spaces
  std::vector<int32_t> prefix, suffix;             // around the text if add_special_tokens
  std::string chat_template;
};

class PipelineTokenizer : public Tokenizer {
 public:
  // `config` names the special tokens' roles.
  PipelineTokenizer(PipelineParts parts, const TokenizerConfig& config);

  Encoding Encode(std::string_view text, const EncodeOptions& options) const override;
  std::string Decode(std::span<const int32_t> ids, bool skip_special) const override;
  std::unique_ptr<TextDecoder> MakeDecoder(bool skip_special) const override;
  int64_t vocab_size() const override { return vocab_size_; }
  std::optional<int32_t> TokenToId(std::string_view token) const override;
  std::string IdToToken(int32_t id) const override;
  bool IsSpecial(int32_t id) const override;

 private:
  struct Scratch;
  class StreamDecoder;
  void EncodeSection(const AlignedView& section, bool parse_special, Scratch& scratch,
                     Encoding& encoding) const;
  void EncodeText(const AlignedView& text, Scratch& scratch, Encoding& encoding) const;
  const AddedToken* Added(int32_t id) const;

  PipelineParts parts_;
  AddedTokenMatcher raw_, normalized_;
  absl::flat_hash_map<int32_t, const AddedToken*> added_by_id_;
  TextMap<int32_t> added_by_text_;
  // Of added tokens that normalisation changes: what the decoders are given, since they undo what it does.
  absl::flat_hash_map<int32_t, std::string> normalized_texts_;
  int64_t vocab_size_ = 0;
};

}  // namespace ftune
