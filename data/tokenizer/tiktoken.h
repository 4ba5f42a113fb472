// tiktoken's files: byte-level BPE whose merges follow from the tokens themselves, a line a token: its bytes
// in base64, a space, its id, which is its rank, too. Source: openai/tiktoken, README and tiktoken/load.py.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_config.h"

namespace ftune {

// Whether the file's first line is of that kind.
bool IsTiktoken(std::string_view file);

// How text is split and which special tokens there are stands in no such file: they are known by the file's
// name or the number of its tokens (tiktoken_encoding.h); others are refused. Tokens of `config` go before
// those.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTiktokenTokenizer(const std::filesystem::path& path,
                                                                 TokenizerConfig config);

}  // namespace ftune
