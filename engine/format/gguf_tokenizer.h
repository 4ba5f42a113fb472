// The tokenizer inside a GGUF file as the files that transformers reads.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/gguf.h"

namespace ftune {

struct TokenizerFiles {
  std::string tokenizer_json;
  std::string tokenizer_config_json;  // special tokens and the chat template
};

// Byte-level BPE (tokenizer.ggml.model "gpt2") and SentencePiece's BPE ("llama"). A tokenizer.ggml.pre whose
// rules are not known is an error that names it.
absl::StatusOr<TokenizerFiles> MakeTokenizerFiles(const GgufFile& file);

}  // namespace ftune
