// What stands beside a tokenizer in a model's folder: tokenizer_config.json, special_tokens_map.json,
// added_tokens.json and chat_template.jinja.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/json_part.h"
#include "data/tokenizer/tokenizer.h"

namespace ftune {

struct TokenizerConfig {
  // Texts of the special tokens, by role.
  std::optional<std::string> bos, eos, pad, unk;
  std::optional<bool> add_bos, add_eos;
  // SentencePiece models only: a space before each text between control tokens, not only before the first.
  bool legacy = true;
  std::vector<AddedToken> added;  // of added_tokens_decoder and added_tokens.json
  std::string chat_template;
};

// Files that are not there are passed over. chat_template.jinja goes before the template in
// tokenizer_config.json; where that is a list of named ones, the one named "default" is taken (or the only
// one).
absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::filesystem::path& folder);

// One element of tokenizer.json's added_tokens or, with the id given, of added_tokens_decoder.
absl::StatusOr<AddedToken> ReadAddedToken(const JsonPart& part, std::optional<int64_t> id = std::nullopt);

// The roles that `config` names, of the tokens that `tokenizer` has.
SpecialTokens FindSpecialTokens(const TokenizerConfig& config, const Tokenizer& tokenizer);

}  // namespace ftune
