#include "data/tokenizer/pipeline_tokenizer.h"

#include <algorithm>

#include "data/tokenizer/utf8.h"

namespace ftune {

// Memory kept from piece to piece of one Encode.
struct PipelineTokenizer::Scratch {
  NormalizerStorage normalizer;
  std::vector<TextSection> sections;
  ModelScratch model;
  std::vector<WordToken> tokens;
};

PipelineTokenizer::PipelineTokenizer(PipelineParts parts, const TokenizerConfig& config)
    : parts_(std::move(parts)) {
  chat_template_ = std::move(parts_.chat_template);
  if (parts_.decoders.empty()) parts_.decoders.push_back(MakeSpacedDecoder());
  vocab_size_ = parts_.vocabulary->size();
  NormalizerStorage storage;
  for (const AddedToken& token : parts_.added) {
    vocab_size_ = std::max<int64_t>(vocab_size_, token.id + 1);
    added_by_id_.emplace(token.id, &token);
    added_by_text_.emplace(token.text, token.id);
    if (token.normalized) {
      const std::string_view text = Normalize(parts_.normalizers, AlignedView{token.text}, storage).text;
      normalized_.Add(text, &token);
      if (text != token.text) normalized_texts_.emplace(token.id, text);
    } else {
      raw_.Add(token.text, &token);
    }
  }
  special_ = FindSpecialTokens(config, *this);
}

Encoding PipelineTokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  Encoding encoding;
  const auto append = [&](int32_t id, TextSpan span) {
    encoding.ids.push_back(id);
    encoding.spans.push_back(span);
  };
  AlignedBuffer repaired;
  const AlignedView document = AsUtf8(text, repaired);
  if (options.add_special_tokens) {
    for (const int32_t id : parts_.prefix) append(id, {0, 0});
  }
  std::vector<TextSection> sections;
  raw_.Split(document.text, options.parse_special, sections);
  Scratch scratch;
  for (const TextSection& section : sections) {
    if (section.token != nullptr) {
      append(section.token->id, document.Span(section.begin, section.end));
    } else {
      EncodeSection(document.Slice(section.begin, section.end), options.parse_special, scratch, encoding);
    }
  }
  if (options.add_special_tokens) {
    const auto end = static_cast<int64_t>(text.size());
    for (const int32_t id : parts_.suffix) append(id, {end, end});
  }
  return encoding;
}

void PipelineTokenizer::EncodeSection(const AlignedView& section, bool parse_special, Scratch& scratch,
                                      Encoding& encoding) const {
  const AlignedView text = Normalize(parts_.normalizers, section, scratch.normalizer);
  scratch.sections.clear();
  normalized_.Split(text.text, parse_special, scratch.sections);
  for (const TextSection& part : scratch.sections) {
    if (part.token != nullptr) {
      encoding.ids.push_back(part.token->id);
      encoding.spans.push_back(text.Span(part.begin, part.end));
    } else {
      EncodeText(text.Slice(part.begin, part.end), scratch, encoding);
    }
  }
}

void PipelineTokenizer::EncodeText(const AlignedView& text, Scratch& scratch, Encoding& encoding) const {
  Pieces pieces;
  pieces.text = text;
  pieces.pieces.push_back({0, text.text.size()});
  for (const auto& step : parts_.pre_tokenizers.steps) step->Apply(pieces);
  for (const TextPiece& piece : pieces.pieces) {
    // No real piece is so long that it has to be cut.
    for (size_t begin = piece.begin, end; begin < piece.end; begin = end) {
      end = std::min(piece.end, begin + PieceModel::kMaxPieceBytes);
      if (end < piece.end && !parts_.pre_tokenizers.byte_level) end = PreviousBoundary(pieces.text.text, end);
      scratch.tokens.clear();
      parts_.model->Encode(pieces.text.text.substr(begin, end - begin), scratch.model, scratch.tokens);
      for (const WordToken& token : scratch.tokens) {
        encoding.ids.push_back(token.id);
        encoding.spans.push_back(pieces.text.Span(begin + token.begin, begin + token.end));
      }
    }
  }
}

// Ids to the texts of their tokens, through the decoders.
class PipelineTokenizer::StreamDecoder : public TextDecoder {
 public:
  StreamDecoder(const PipelineTokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special), chain_(tokenizer.parts_.decoders) {}

  std::string Push(int32_t id) override {
    Add(id);
    return chain_.Take();
  }
  std::string Finish() override {
    chain_.Finish();
    return chain_.Take();
  }
  void Add(int32_t id) {
    if (skip_special_ && tokenizer_.IsSpecial(id)) return;
    const auto normalized = tokenizer_.normalized_texts_.find(id);
    const std::string token =
        normalized == tokenizer_.normalized_texts_.end() ? tokenizer_.IdToToken(id) : normalized->second;
    if (!token.empty()) chain_.Push(token);
  }

 private:
  const PipelineTokenizer& tokenizer_;
  bool skip_special_;
  DecoderChain chain_;
};

std::string PipelineTokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  StreamDecoder decoder(*this, skip_special);
  for (const int32_t id : ids) decoder.Add(id);
  return decoder.Finish();
}

std::unique_ptr<TextDecoder> PipelineTokenizer::MakeDecoder(bool skip_special) const {
  return std::make_unique<StreamDecoder>(*this, skip_special);
}

const AddedToken* PipelineTokenizer::Added(int32_t id) const {
  const auto found = added_by_id_.find(id);
  return found == added_by_id_.end() ? nullptr : found->second;
}

std::optional<int32_t> PipelineTokenizer::TokenToId(std::string_view token) const {
  const auto found = added_by_text_.find(token);
  if (found != added_by_text_.end()) return found->second;
  return parts_.vocabulary->Find(token);
}

std::string PipelineTokenizer::IdToToken(int32_t id) const {
  if (const AddedToken* added = Added(id)) return added->text;
  return id >= 0 && id < parts_.vocabulary->size() ? parts_.vocabulary->Text(id) : "";
}

bool PipelineTokenizer::IsSpecial(int32_t id) const {
  const AddedToken* added = Added(id);
  return added != nullptr && added->special;
}

}  // namespace ftune
