// The "model" of tokenizer.json, of type BPE.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/json_part.h"
#include "data/tokenizer/vocabulary.h"

namespace ftune {

struct BpeFromJson {
  std::unique_ptr<Vocabulary> vocabulary;
  std::vector<BpeModel::Merge> merges;
  BpeOptions options;         // byte_level is left to the pre-tokenizer
  std::string unknown_token;  // its text, empty if there is none
};

// Other types of model (Unigram, WordPiece, WordLevel) are errors that name them.
absl::StatusOr<BpeFromJson> ReadBpe(const JsonPart& model);

}  // namespace ftune
