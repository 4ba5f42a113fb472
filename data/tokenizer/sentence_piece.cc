#include "data/tokenizer/sentence_piece.h"

#include <sentencepiece_processor.h>

#include "data/tokenizer/byte_tokens.h"

namespace ftune {
namespace {

// ModelProto's field 3, normalizer_spec, with its field 3, add_dummy_prefix, false. Appended to a serialized
// model it overrides what the model says: of a field that stands twice, protobuf merges messages and takes
// the last scalar.
constexpr std::string_view kNoDummyPrefix("\x1A\x02\x18\x00", 4);

}  // namespace

struct SentencePiece::Models {
  sentencepiece::SentencePieceProcessor as_model, no_prefix;

  const sentencepiece::SentencePieceProcessor& With(Prefix prefix) const {
    return prefix == Prefix::kNone ? no_prefix : as_model;
  }
};

SentencePiece::SentencePiece(std::unique_ptr<Models> models) : models_(std::move(models)) {}
SentencePiece::~SentencePiece() = default;

std::unique_ptr<SentencePiece> SentencePiece::Load(std::string_view model, std::string& error) {
  auto models = std::make_unique<Models>();
  auto status = models->as_model.LoadFromSerializedProto(model);
  if (status.ok()) {
    std::string changed(model);
    changed += kNoDummyPrefix;
    status = models->no_prefix.LoadFromSerializedProto(changed);
  }
  if (!status.ok()) {
    error = status.ToString();
    return nullptr;
  }
  return std::unique_ptr<SentencePiece>(new SentencePiece(std::move(models)));
}

std::vector<SentencePieceToken> SentencePiece::Encode(std::string_view text, Prefix prefix) const {
  const auto& model = models_->With(prefix);
  sentencepiece::ImmutableSentencePieceText result;
  model.Encode(text, result.mutable_proto()).IgnoreError();  // fails only if no model was loaded
  std::vector<SentencePieceToken> tokens;
  for (const auto& piece : result.pieces()) {
    tokens.push_back({static_cast<int32_t>(piece.id()), piece.begin(), piece.end()});
  }
  // Of the byte pieces of one character, the library gives the character's place to the last and none to the
  // others.
  size_t first = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!model.IsByte(tokens[i].id)) {
      first = i + 1;
      continue;
    }
    const size_t begin = tokens[i].begin, end = tokens[i].end, run = i + 1 - first;
    if (begin == end) continue;
    for (size_t k = 0; k < run; ++k) {
      const bool one_to_one = end - begin == run;
      tokens[first + k].begin = one_to_one ? begin + k : begin;
      tokens[first + k].end = one_to_one ? begin + k + 1 : end;
    }
    first = i + 1;
  }
  return tokens;
}

std::string SentencePiece::Decode(std::span<const int32_t> ids, Prefix prefix) const {
  std::string text;
  models_->With(prefix).Decode(std::vector<int>(ids.begin(), ids.end()), &text).IgnoreError();
  return text;
}

int32_t SentencePiece::size() const { return models_->as_model.GetPieceSize(); }
std::string SentencePiece::Text(int32_t id) const { return models_->as_model.IdToPiece(id); }
int32_t SentencePiece::Find(std::string_view text) const {
  const int32_t id = models_->as_model.PieceToId(text);
  return models_->as_model.IdToPiece(id) == text ? id : -1;  // what is no piece is given the unknown one's id
}
bool SentencePiece::IsControl(int32_t id) const { return models_->as_model.IsControl(id); }
bool SentencePiece::IsUnknown(int32_t id) const { return models_->as_model.IsUnknown(id); }
int SentencePiece::Byte(int32_t id) const {
  return models_->as_model.IsByte(id) ? ByteOfToken(models_->as_model.IdToPiece(id)) : -1;
}
int32_t SentencePiece::bos() const { return models_->as_model.bos_id(); }
int32_t SentencePiece::eos() const { return models_->as_model.eos_id(); }
int32_t SentencePiece::pad() const { return models_->as_model.pad_id(); }
int32_t SentencePiece::unk() const { return models_->as_model.unk_id(); }

}  // namespace ftune
