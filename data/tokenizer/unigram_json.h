// The "model" of tokenizer.json, of type Unigram.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "data/tokenizer/json_part.h"
#include "data/tokenizer/vocabulary.h"

namespace ftune {

struct UnigramFromJson {
  std::unique_ptr<Vocabulary> vocabulary;
  std::vector<double> scores;  // by id
  int32_t unknown = 0;         // below the vocabulary's size
  bool byte_fallback = false;
};

absl::StatusOr<UnigramFromJson> ReadUnigram(const JsonPart& model);

}  // namespace ftune
