// Datasets: tokenised samples of several entries, with an account of what was left out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/source/row.h"
#include "data/store/data_report.h"
#include "data/store/token_store.h"

namespace ftune {

struct DatasetEntry {
  std::string path;
  RowFormat format = RowFormat::kAuto;
  RowMapping mapping;
  double weight = 1.0;  // how often each row comes in an epoch, on average
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

struct TrainAndEvaluation {
  Dataset train;       // with the report of both
  Dataset evaluation;  // empty where nothing was asked for
};

// Takes rows for evaluation: a share of them (`size` < 1) or a count; 0: none. All samples of a row stay
// together. Which rows depends on the seed and their number alone, not on the length policy. An error where
// no row would be left.
absl::StatusOr<TrainAndEvaluation> SplitDataset(Dataset dataset, double size, uint64_t seed);

}  // namespace ftune
