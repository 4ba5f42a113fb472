// tokenizer.json of huggingface/tokenizers.
#pragma once

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_config.h"

namespace ftune {

// `config` gives the special tokens' roles and the chat template. Truncation and padding that the file may
// ask for are not done: they are no business of training. Errors name the file and the key.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizerJson(const std::filesystem::path& path,
                                                             TokenizerConfig config);

}  // namespace ftune
