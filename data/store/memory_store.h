// Samples kept in memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/sample.h"
#include "data/store/token_block.h"
#include "data/store/token_store.h"

namespace ftune {

// Reading is thread-safe; adding is not, and ends the life of the spans that were given out.
class MemoryTokenStore : public TokenStore {
 public:
  // `length` and `trained_tokens` of `info` are taken from the sample.
  void Add(const Sample& sample, SampleInfo info);
  // Rows of `entry`, of which the first is number `first_row` over all entries.
  void Append(const TokenBlock& block, int32_t entry, int64_t first_row);

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  SampleInfo info(int64_t sample) const override { return samples_[static_cast<size_t>(sample)].info; }
  std::span<const StoredToken> tokens(int64_t sample) const override;
  absl::Status VisitDropped(const DroppedVisitor& visit) const override;

 private:
  struct Entry {
    SampleInfo info;
    size_t begin = 0;  // in tokens_
  };

  std::vector<Entry> samples_;
  std::vector<StoredToken> tokens_;
  std::vector<DroppedRow> dropped_;
};

}  // namespace ftune
