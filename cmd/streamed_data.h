// A recipe's training data where data.streaming says to read it while training.
#pragma once

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cmd/audit.h"
#include "cmd/recipe/recipe.h"
#include "cmd/run_data.h"
#include "data/loader/row_stream.h"
#include "data/loader/streamed_rows.h"
#include "data/prepare/block_builder.h"
#include "data/source/sample_builder.h"
#include "data/store/data_report.h"

namespace ftune {

class StreamedData {
 public:
  using Say = std::function<void(const std::string&)>;

  // `data` has the tokenizer and the template; both outlive this.
  StreamedData(const Recipe& recipe, const RunData& data, Say say);
  StreamedData(const StreamedData&) = delete;
  StreamedData& operator=(const StreamedData&) = delete;

  // Appends a line to this file for each row that is dropped or cut, as the first pass comes to it.
  absl::Status ListDropped(const std::filesystem::path& path);

  // Of all entries as one. Entries in pipes are read once.
  RowInput input();

  // Of the rows that the first pass through the data has read so far. From any thread.
  DataReport report() const;
  DataAudit Audit() const;

 private:
  absl::StatusOr<std::unique_ptr<RowStream>> Open();
  absl::Status Observe(const TokenBlock& block);
  bool first_pass() const { return passes_ == 1; }

  const RunData& data_;
  std::vector<DatasetEntry> entries_;
  bool interleave_;
  std::string model_;
  Say say_;
  BadRows bad_rows_;
  SampleBuilder builder_;
  BlockBuilder block_builder_;
  std::filesystem::path dropped_path_;
  std::ofstream dropped_;
  mutable std::mutex mutex_;
  DataReport report_;
  std::vector<StoredToken> first_sample_;
  std::atomic<int64_t> passes_ = 0;  // begun
};

// "1000 rows read, 3 dropped (too_long)".
std::string DescribeStream(const DataReport& report);

}  // namespace ftune
