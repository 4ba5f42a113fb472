// The samples of consecutive rows of one entry, just made: what goes into a store.
#pragma once

#include <cstdint>
#include <vector>

#include "data/sample.h"
#include "data/store/data_report.h"
#include "data/store/dropped_row.h"
#include "data/store/token_store.h"

namespace ftune {

// A sample as a shard file has it, little-endian.
struct SampleRecord {
  uint64_t begin = 0;  // of its tokens, among those of the block or shard
  uint64_t row_hash = 0;
  uint32_t length = 0;          // tokens
  uint32_t trained_tokens = 0;  // as in SampleInfo
  uint32_t row = 0;             // within the block or shard
  uint32_t zero = 0;
};
static_assert(sizeof(SampleRecord) == 32);

struct TokenBlock {
  std::vector<StoredToken> tokens;
  std::vector<SampleRecord> samples;
  std::vector<DroppedRow> dropped;  // `row` within the block
  DataReport report;

  void Add(const Sample& sample, uint32_t row, uint64_t row_hash);
};

SampleInfo InfoOf(const SampleRecord& record, int32_t entry, int64_t first_row);

}  // namespace ftune
