// Tokens that a recipe adds to a model: in its tokenizer's files, and as rows of its embedding and head.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/format/hf_model.h"
#include "engine/format/weight_source.h"

namespace ftune {

struct AddedTokens {
  std::vector<std::string> texts;  // those that the tokenizer did not have yet
  std::vector<int32_t> ids;        // of them
  int64_t known = 0;               // ids below are the tokenizer's own

  // Rows that the embedding must have.
  int64_t rows() const { return known + static_cast<int64_t>(ids.size()); }
};

// Writes the tokenizer of `base` into `folder`, with `tokens` as special tokens after its own; those that it
// has already stay as they are. A tokenizer without tokenizer.json is an error.
absl::StatusOr<AddedTokens> WriteExtendedTokenizer(const ModelFiles& base,
                                                   const std::vector<std::string>& tokens,
                                                   const std::filesystem::path& folder);

// The same weights, with `rows` rows in each tensor that `names` lists, in fp32: the rows of `ids` and those
// that are new are the mean of the first `known` (Hewitt, "Initializing new word embeddings for pretrained
// language models", 2021).
struct RowGrowth {
  int64_t rows = 0;
  int64_t known = 0;
  std::vector<int32_t> ids;
};
absl::StatusOr<std::unique_ptr<WeightSource>> GrowRows(std::unique_ptr<WeightSource> weights,
                                                       const std::vector<std::string>& names,
                                                       const RowGrowth& growth);

}  // namespace ftune
