// A data section's entries as a dataset: from the store that an earlier call left, or made now and left for
// the next.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "data/prepare/build_entries.h"
#include "data/prepare/source_files.h"
#include "data/prepare/store_key.h"
#include "data/source/dataset.h"
#include "data/template/chat_template.h"
#include "data/tokenizer/tokenizer.h"

namespace ftune {

struct PrepareOptions {
  // Of all stores: each gets a folder of its own, named by its key. Empty: the samples stay in memory.
  std::filesystem::path folder;
  // Where the folder cannot be made or written to, the samples stay in memory, which is said; otherwise that
  // is an error.
  bool memory_will_do = false;
  SampleSource source;
  BuildOptions build;
  // Of files that may have to be read for it; of more it is an error that they are not prepared yet.
  std::optional<int64_t> most_bytes;
};

struct PreparedStore {
  std::filesystem::path path;  // empty: in memory
  int64_t bytes = 0;           // of its files
  int64_t shards = 0;
  int64_t reused_shards = 0;  // were there already
};

struct PreparedDataset {
  Dataset dataset;
  PreparedStore store;
  std::vector<HashedFile> files;  // of all entries, in the order in which they are read
};

// The result is the same wherever it is kept. The first row that is not as its format wants is
// the error, unless such rows are skipped; so is a dataset of which no sample is left. Memory does not grow
// with the size of the data, but for some ten bytes a sample, unless the samples stay in memory.
//
// A process that is killed leaves finished shards, which the next one goes on from. Of two processes at once
// one waits for the other. What is torn or altered in a store is found, said and made again. Stores that are
// not asked for any more are never removed.
absl::StatusOr<PreparedDataset> PrepareDataset(const std::vector<DatasetEntry>& entries,
                                               const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                                               const PrepareOptions& options,
                                               const PrepareObserver& observer = {});

}  // namespace ftune
