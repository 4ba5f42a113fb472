// Text to token ids and back, with the place of each token in the text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "data/tokenizer/text_decoder.h"

namespace ftune {

// Bytes [begin, end) of the text that was encoded. Tokens that stem from no text (an added BOS) have begin ==
// end. Byte-level tokens that cover part of a character give exactly their bytes.
struct TextSpan {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<TextSpan> spans;  // as many as ids
};

// Special tokens by role: text and id. Absent where the model names none.
struct SpecialToken {
  std::string text;
  int32_t id = -1;
};
struct SpecialTokens {
  std::optional<SpecialToken> bos, eos, pad, unk;
};

struct EncodeOptions {
  bool add_special_tokens =
      false;                  // what the post-processor adds (BOS …), as transformers' add_special_tokens
  bool parse_special = true;  // control tokens written in the text become their ids
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Thread-safe. Invalid UTF-8 in `text` is encoded as U+FFFD's bytes would be, as `tokenizers` does.
  virtual Encoding Encode(std::string_view text, const EncodeOptions& options = {}) const = 0;
  // Thread-safe. Ids outside the vocabulary decode to nothing.
  virtual std::string Decode(std::span<const int32_t> ids, bool skip_special) const = 0;
  // Decode, id by id. The tokenizer outlives it.
  virtual std::unique_ptr<TextDecoder> MakeDecoder(bool skip_special) const = 0;

  virtual int64_t vocab_size() const = 0;  // highest id + 1, added tokens included
  virtual std::optional<int32_t> TokenToId(std::string_view token) const = 0;
  virtual std::string IdToToken(int32_t id) const = 0;  // "" if out of range
  virtual bool IsSpecial(int32_t id) const = 0;

  const SpecialTokens& special() const { return special_; }
  // The chat template's Jinja source that came with the tokenizer (chat_template.jinja,
  // tokenizer_config.json, GGUF metadata); empty where there is none.
  const std::string& chat_template() const { return chat_template_; }

 protected:
  SpecialTokens special_;
  std::string chat_template_;
};

// From a folder (tokenizer.json, else tokenizer.model or .model.v3, else one .tiktoken file), a .gguf file,
// or one of those files itself. A .model file may be SentencePiece's or tiktoken's. Errors name the file.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::filesystem::path& model);

}  // namespace ftune
