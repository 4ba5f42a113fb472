// The "pre_tokenizer" of tokenizer.json.
#pragma once

#include "absl/status/status.h"
#include "data/tokenizer/json_part.h"
#include "data/tokenizer/pre_tokenizer.h"

namespace ftune {

// Adds the steps of `part` (null: none). A type that is not known is an error that names it.
absl::Status ReadPreTokenizer(const JsonPart& part, PreTokenizerSteps& steps);

// ByteLevel, which GGUF vocabularies have too: GPT-2's split and the map of bytes to characters.
absl::Status AddByteLevel(bool prefix_space, bool split, PreTokenizerSteps& steps);

}  // namespace ftune
