// The tokenizer inside a GGUF file: tokenizer.ggml.model "gpt2" (byte-level BPE) and "llama" (SentencePiece's
// BPE by score).
#pragma once

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "data/tokenizer/tokenizer.h"

namespace ftune {

// Other models and unknown pre-tokenizers are errors that name them.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadGgufTokenizer(const std::filesystem::path& path);

}  // namespace ftune
