// A tokenizer from a SentencePiece .model file.
#pragma once

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_config.h"

namespace ftune {

// Control symbols and `config`'s added tokens are cut out of the text, the rest goes through the library; so
// do transformers' slow tokenizers. add_special_tokens adds BOS unless config.add_bos is false, EOS if
// config.add_eos.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadSentencePieceTokenizer(const std::filesystem::path& path,
                                                                      TokenizerConfig config);

}  // namespace ftune
