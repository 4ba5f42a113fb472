// A Hugging Face folder's tokenizer as GGUF metadata.
#pragma once

#include <cstdint>
#include <filesystem>

#include "absl/status/status.h"
#include "base/gguf_writer.h"
#include "engine/model/config.h"

namespace ftune {

// Adds tokenizer.*: tokens (filled up to the rows of the embedding), their types, merges or scores, the name
// of the pre-tokenizer, special ids, the chat template. A byte-level tokenizer.json becomes "gpt2", a
// SentencePiece BPE in tokenizer.model "llama". Of config.eos_ids the first three are kept, as end of text,
// of turn and of message; GGUF has no more. Errors name the file and its part: another kind of tokenizer, a
// way to split text that GGUF has no name for, ids beyond the embedding.
absl::Status AddTokenizer(const std::filesystem::path& folder, const ModelConfig& config,
                          GgufMetadata& metadata);

}  // namespace ftune
