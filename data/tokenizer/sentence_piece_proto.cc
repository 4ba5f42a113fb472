#include "data/tokenizer/sentence_piece_proto.h"

#include <cstring>

namespace ftune {
namespace {

// A field of a message: its number, and its value by its wire type
// (https://protobuf.dev/programming-guides/encoding).
struct Field {
  uint64_t number = 0;
  uint64_t integer = 0;    // varint, or the bits of 32 or 64
  std::string_view bytes;  // of what has a length: text, messages
};

class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}

  // False at the end, and at bytes that are no field.
  bool Next(Field& field) {
    field = {};
    uint64_t tag = 0;
    if (rest_.empty()) return false;
    sound_ = ReadVarint(tag) && ReadValue(tag & 7, field);
    field.number = tag >> 3;
    return sound_;
  }
  // Whether Next came to the end without an error.
  bool sound() const { return sound_; }

 private:
  bool ReadVarint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) return false;
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return true;
    }
    return false;
  }
  bool ReadFixed(size_t size, uint64_t& value) {
    if (rest_.size() < size) return false;
    std::memcpy(&value, rest_.data(), size);
    rest_.remove_prefix(size);
    return true;
  }
  bool ReadValue(uint64_t wire_type, Field& field) {
    switch (wire_type) {
      case 0:
        return ReadVarint(field.integer);
      case 1:
        return ReadFixed(8, field.integer);
      case 5:
        return ReadFixed(4, field.integer);
      case 2: {
        uint64_t length = 0;
        if (!ReadVarint(length) || length > rest_.size()) return false;
        field.bytes = rest_.substr(0, length);
        rest_.remove_prefix(length);
        return true;
      }
      default:
        return false;
    }
  }

  std::string_view rest_;
  bool sound_ = true;
};

bool ReadPiece(std::string_view bytes, SentencePieceProto::Piece& piece) {
  Message message(bytes);
  for (Field field; message.Next(field);) {
    const auto bits = static_cast<uint32_t>(field.integer);
    if (field.number == 1) piece.text = std::string(field.bytes);
    if (field.number == 2) std::memcpy(&piece.score, &bits, 4);
    if (field.number == 3) piece.type = static_cast<int32_t>(bits);
  }
  return message.sound();
}

bool ReadTrainer(std::string_view bytes, SentencePieceProto& proto) {
  constexpr uint64_t kBpe = 2;
  Message message(bytes);
  for (Field field; message.Next(field);) {
    if (field.number == 3) proto.bpe = field.integer == kBpe;
  }
  return message.sound();
}

bool ReadNormalizer(std::string_view bytes, SentencePieceProto& proto) {
  Message message(bytes);
  for (Field field; message.Next(field);) {
    if (field.number == 2) proto.normalizes = !field.bytes.empty();
    if (field.number == 3) proto.add_dummy_prefix = field.integer != 0;
    if (field.number == 4) proto.remove_extra_whitespaces = field.integer != 0;
  }
  return message.sound();
}

}  // namespace

std::optional<SentencePieceProto> ReadSentencePieceProto(std::string_view bytes) {
  SentencePieceProto proto;
  Message message(bytes);
  for (Field field; message.Next(field);) {
    bool sound = true;
    if (field.number == 1) sound = ReadPiece(field.bytes, proto.pieces.emplace_back());
    if (field.number == 2) sound = ReadTrainer(field.bytes, proto);
    if (field.number == 3) sound = ReadNormalizer(field.bytes, proto);
    if (!sound) return std::nullopt;
  }
  if (!message.sound() || proto.pieces.empty()) return std::nullopt;
  return proto;
}

}  // namespace ftune
