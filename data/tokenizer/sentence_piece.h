// The SentencePiece library behind an interface that needs neither its headers nor Abseil's: they declare
// names that clash, so that no file can include both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ftune {

// Bytes [begin, end) of the text.
struct SentencePieceToken {
  int32_t id = 0;
  size_t begin = 0, end = 0;
};

class SentencePiece {
 public:
  // `model`: the bytes of a .model file. On failure returns null and sets `error`.
  static std::unique_ptr<SentencePiece> Load(std::string_view model, std::string& error);
  ~SentencePiece();

  enum class Prefix {
    kAsModel,  // a space before the text, if the model has it so
    kNone,
  };
  // Thread-safe. `text` is UTF-8.
  std::vector<SentencePieceToken> Encode(std::string_view text, Prefix prefix) const;
  // The text of a run of ids, all below size(), that was encoded with `prefix`.
  std::string Decode(std::span<const int32_t> ids, Prefix prefix) const;

  int32_t size() const;
  std::string Text(int32_t id) const;
  int32_t Find(std::string_view text) const;  // -1 if there is no such piece
  bool IsControl(int32_t id) const;
  bool IsUnknown(int32_t id) const;
  int Byte(int32_t id) const;  // that the piece stands for; -1 for other pieces
  int32_t bos() const;         // -1 if there is none
  int32_t eos() const;
  int32_t pad() const;
  int32_t unk() const;

 private:
  struct Models;
  explicit SentencePiece(std::unique_ptr<Models> models);
  std::unique_ptr<Models> models_;
};

}  // namespace ftune
