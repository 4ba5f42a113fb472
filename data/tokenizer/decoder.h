// The way back: from the texts of tokens to text. A decoder changes a stream of tokens into another; several
// are chained, and in the end all is joined.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/regex.h"

namespace ftune {

// Takes a stream of tokens, each of them in one or more parts: Text … Text EndToken.
class DecodeSink {
 public:
  virtual ~DecodeSink() = default;
  virtual void Text(std::string_view part) = 0;
  virtual void EndToken() = 0;
  // No more tokens. Gives out what was held back.
  virtual void Finish() = 0;

  void Token(std::string_view text) {
    Text(text);
    EndToken();
  }
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  // The decoder at the start of a stream, writing to `next`. Both outlive it.
  virtual std::unique_ptr<DecodeSink> Start(DecodeSink& next) const = 0;
};

// Byte-level text to bytes; what is not UTF-8 becomes U+FFFD. A token with other characters stays as it is.
// All tokens become one.
std::unique_ptr<Decoder> MakeByteLevelDecoder();
std::unique_ptr<Decoder> MakeReplaceDecoder(Regex pattern, std::string content);
// Runs of <0x00> … <0xFF> to their bytes; a run that is not UTF-8 to one U+FFFD a byte.
std::unique_ptr<Decoder> MakeByteFallbackDecoder();
// All tokens into one.
std::unique_ptr<Decoder> MakeFuseDecoder();
// Up to `start` times `content` from the front of each token, up to `stop` times from its back.
std::unique_ptr<Decoder> MakeStripDecoder(char32_t content, int64_t start, int64_t stop);
// `replacement` to spaces; in the first token to nothing if `prefixed`: it was put before the text.
std::unique_ptr<Decoder> MakeMetaspaceDecoder(char32_t replacement, bool prefixed);
// `suffix`, which ends words, to a space; to nothing in the last token.
std::unique_ptr<Decoder> MakeBpeDecoder(std::string suffix);
// A space between tokens: what `tokenizers` does where a file names no decoder.
std::unique_ptr<Decoder> MakeSpacedDecoder();

// A chain of decoders at work. The decoders outlive it.
class DecoderChain {
 public:
  explicit DecoderChain(std::span<const std::unique_ptr<Decoder>> decoders);
  void Push(std::string_view token) { first().Token(token); }
  void Finish() { first().Finish(); }
  // The text that has come out since the last call.
  std::string Take();

 private:
  class Output : public DecodeSink {
   public:
    void Text(std::string_view part) override { text.append(part); }
    void EndToken() override {}
    void Finish() override {}
    std::string text;
  };
  DecodeSink& first() { return steps_.empty() ? *output_ : *steps_.back(); }

  std::unique_ptr<Output> output_;
  std::vector<std::unique_ptr<DecodeSink>> steps_;  // the last of the chain first
};

}  // namespace ftune
