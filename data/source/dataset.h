// Datasets: files of rows, read and tokenised in parallel into samples, with an account of what was left out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/audit/audit_counts.h"
#include "data/source/row.h"
#include "data/source/sample_builder.h"
#include "data/store/token_store.h"

namespace ftune {

struct DatasetEntry {
  std::string path;  // .txt: one document; anything else: JSON Lines
  RowFormat format = RowFormat::kAuto;
  RowMapping mapping;
  double weight = 1.0;  // how often each row comes in an epoch, on average
};

struct DroppedRow {
  RowPlace place;
  int64_t row = 0;  // index over the rows of all entries
  DropReason reason = DropReason::kTooLong;
  int64_t tokens = 0;
};

// The row as one line of JSON (file, line, row, reason, tokens), without the line's end.
std::string DroppedRowJson(const DroppedRow& dropped);

struct DataReport {
  int64_t rows = 0;
  int64_t truncated_rows = 0;
  int64_t split_rows = 0;           // became more than one sample
  std::vector<DroppedRow> dropped;  // in order of rows
  AuditCounts audit;                // merged over all rows
};

// How an entry's samples are mixed with those of the others.
struct EntryMix {
  double weight = 1.0;
};

struct Dataset {
  std::shared_ptr<const TokenStore> store;  // null where there are no samples
  std::vector<int64_t> samples;             // indices into the store, in its order
  std::vector<EntryMix> mix;                // of the entries
  DataReport report;

  int64_t size() const { return static_cast<int64_t>(samples.size()); }
  // Of the i-th of `samples`.
  SampleInfo info(int64_t i) const { return store->info(samples[static_cast<size_t>(i)]); }
  std::span<const StoredToken> sample(int64_t i) const {
    return store->tokens(samples[static_cast<size_t>(i)]);
  }
  // Over all of `samples`.
  int64_t tokens() const;
  int64_t trained_tokens() const;
};

// Reads all entries with `threads` threads (0: one a core); the result does not depend on their number. The
// first row that is not as its format wants is the error; so is a dataset of which no sample is left.
absl::StatusOr<Dataset> LoadDataset(const std::vector<DatasetEntry>& entries, const Tokenizer& tokenizer,
                                    const ChatTemplate* chat_template, const SampleOptions& options,
                                    int threads = 0);

struct TrainAndEvaluation {
  Dataset train;       // with the report of both
  Dataset evaluation;  // empty where nothing was asked for
};

// Takes rows for evaluation: a share of them (`size` < 1) or a count; 0: none. All samples of a row stay
// together. Which rows depends on the seed and their number alone, not on the length policy. An error where
// no row would be left.
absl::StatusOr<TrainAndEvaluation> SplitDataset(Dataset dataset, double size, uint64_t seed);

}  // namespace ftune
