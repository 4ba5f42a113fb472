// Reads, renders and tokenises all rows of a data section's entries, with every core.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "data/prepare/block_builder.h"
#include "data/prepare/source_files.h"
#include "data/source/dataset.h"
#include "data/store/token_block.h"

namespace ftune {

struct PrepareProgress {
  int64_t rows = 0;
  int64_t bytes = 0;                   // of text
  std::optional<int64_t> total_bytes;  // where it can be told ahead: not of compressed files
};

// What a person is told.
struct PrepareObserver {
  std::function<void(const std::string&)> say = [](const std::string&) {};
  std::function<void(const PrepareProgress&)> progress = [](const PrepareProgress&) {};  // after each block
};

// Takes the samples in order. They are cut into shards: where, is a function of the files' content and the
// options alone.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  // Whether the shard is there already: its rows are passed over.
  virtual bool Has(uint32_t shard) const = 0;
  virtual absl::Status Add(uint32_t shard, int32_t entry, const TokenBlock& block) = 0;
};

struct BuildOptions {
  BadRows bad_rows = BadRows::kError;
  int threads = 0;  // 0: one a core; the result does not depend on it
  size_t block_bytes = size_t{256} << 10;
  // Of text: a shard ends with the block that reaches it. 0: about 64 shards, of 1 to 64 MiB.
  int64_t shard_bytes = 0;
};

// Returns the number of shards.
absl::StatusOr<uint32_t> BuildEntries(const std::vector<DatasetEntry>& entries,
                                      const std::vector<std::vector<HashedFile>>& files,
                                      const SampleBuilder& builder, const BuildOptions& options,
                                      const PrepareObserver& observer, TokenSink& sink);

}  // namespace ftune
