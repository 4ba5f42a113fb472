// What a SentencePiece .model file says of its pieces, which the library does not give out: read from the
// protocol buffer itself (sentencepiece_model.proto).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ftune {

struct SentencePieceProto {
  // The proto's numbers, which GGUF files have, too.
  enum Type : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  struct Piece {
    std::string text;
    float score = 0;
    int32_t type = kNormal;
  };
  std::vector<Piece> pieces;     // by id
  bool bpe = false;              // trainer_spec.model_type; otherwise Unigram, words or characters
  bool add_dummy_prefix = true;  // of normalizer_spec
  bool remove_extra_whitespaces = true;
  bool normalizes = false;  // has a table of characters to replace
};

// Nothing if the bytes are no protocol buffer of that kind.
std::optional<SentencePieceProto> ReadSentencePieceProto(std::string_view bytes);

}  // namespace ftune
