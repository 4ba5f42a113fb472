#include "data/store/token_block.h"

#include <algorithm>

namespace ftune {

void TokenBlock::Add(const Sample& sample, uint32_t row, uint64_t row_hash) {
  samples.push_back({.begin = tokens.size(),
                     .row_hash = row_hash,
                     .length = static_cast<uint32_t>(sample.size()),
                     .trained_tokens = static_cast<uint32_t>(sample.trained_tokens()),
                     .row = row});
  for (size_t i = 0; i < sample.ids.size(); ++i) {
    tokens.push_back(StoredToken::Make(sample.ids[i], sample.trained[i] != 0));
    report.max_id = std::max(report.max_id, sample.ids[i]);
  }
}

SampleInfo InfoOf(const SampleRecord& record, int32_t entry, int64_t first_row) {
  return {.length = record.length,
          .trained_tokens = record.trained_tokens,
          .entry = entry,
          .row = first_row + record.row,
          .row_hash = record.row_hash};
}

}  // namespace ftune
