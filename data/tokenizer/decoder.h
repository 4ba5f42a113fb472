// The way back: from the texts of tokens to text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/tokenizer/regex.h"

namespace ftune {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Changes the list of texts; in the end they are joined.
  virtual void Apply(std::vector<std::string>& tokens) const = 0;
};

// Byte-level text to bytes; what is not UTF-8 becomes U+FFFD. A token with other characters stays as it is.
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

}  // namespace ftune
