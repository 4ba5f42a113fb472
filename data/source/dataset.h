// Datasets: tokenised samples of several entries, with an account of what was left out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/source/row.h"
#include "data/source/row_mapping.h"
#include "data/store/data_report.h"
#include "data/store/token_store.h"

namespace ftune {

// How much of an entry a run takes.
struct EntryMix {
  double weight = 1.0;                 // how often an epoch takes each of its samples, on average
  std::optional<double> epochs;        // times that the run takes each of them, on average; empty: no limit
  std::optional<int64_t> max_samples;  // a random subset of them, the same for ever; empty: all

  bool operator==(const EntryMix&) const = default;
};

struct DatasetEntry {
  std::string path;  // see ListSource
  RowFormat format = RowFormat::kAuto;
  RowMapping mapping;
  EntryMix mix;
  std::vector<std::string> files;  // what the path stands for where it is no path: a hub id's files here
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

}  // namespace ftune
