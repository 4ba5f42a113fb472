// Merges as files write them.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/vocabulary.h"

namespace ftune {

// The merge of two tokens, if all three are in the vocabulary. The first `prefix` bytes of `right` are not
// part of the result (BpeOptions::continuing_prefix).
std::optional<BpeModel::Merge> FindMerge(std::string_view left, std::string_view right, size_t prefix,
                                         const Vocabulary& vocabulary);

// Of "left right". Where there are more spaces, tokens have spaces, and the first cut that gives tokens is
// taken.
std::optional<BpeModel::Merge> ParseMerge(std::string_view text, size_t prefix, const Vocabulary& vocabulary);

}  // namespace ftune
