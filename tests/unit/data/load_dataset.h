// Entries as a dataset in memory.
#pragma once

#include <utility>
#include <vector>

#include "base/error.h"
#include "data/prepare/prepare_dataset.h"

namespace ftune {

inline absl::StatusOr<Dataset> LoadDataset(const std::vector<DatasetEntry>& entries,
                                           const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                                           const SampleOptions& options, const BuildOptions& build = {}) {
  FTUNE_ASSIGN_OR_RETURN(
      PreparedDataset prepared,
      PrepareDataset(entries, tokenizer, chat_template, {.source = {.options = options}, .build = build}));
  return std::move(prepared.dataset);
}

}  // namespace ftune
