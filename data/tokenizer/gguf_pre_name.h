// The name of a pre-tokenizer of tokenizer.json in GGUF files.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "data/tokenizer/json_part.h"

namespace ftune {

// `tokenizer` is the whole of a byte-level tokenizer.json. Its normalizer, the patterns that it splits text
// by and model.ignore_merges are compared with those of the named ones (gguf_pre_tokenizer.h); of several
// that split alike the first is taken. What none of them does is an error that names the part of the file.
absl::StatusOr<std::string> FindGgufPreName(const JsonPart& tokenizer);

// Whether the pre-tokenizer ends in the byte-level alphabet.
absl::StatusOr<bool> IsByteLevel(const JsonPart& pre_tokenizer);

}  // namespace ftune
