// A shard file, mapped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mapped_file.h"
#include "data/store/data_report.h"
#include "data/store/dropped_row.h"
#include "data/store/shard_format.h"
#include "data/store/token_block.h"

namespace ftune {

// Thread-safe.
class MappedShard {
 public:
  // Reads all of the file: a file that is torn, altered, of another version or of another store is an error
  // that says which of these. No more of it than a few megabytes stays resident.
  static absl::StatusOr<MappedShard> Open(const std::filesystem::path& folder, const ShardId& id);

  int32_t entry() const { return entry_; }
  int64_t bytes() const { return static_cast<int64_t>(file_.bytes().size()); }
  std::span<const StoredToken> tokens() const { return tokens_; }
  std::span<const SampleRecord> samples() const { return samples_; }
  const DataReport& report() const { return report_; }
  // `first_row` is the number of the shard's first row over all entries.
  absl::Status VisitDropped(int64_t first_row, const DroppedVisitor& visit) const;

 private:
  explicit MappedShard(MappedFile file) : file_(std::move(file)) {}
  absl::Status Check(const ShardId& id);
  absl::Status CheckSamples() const;

  MappedFile file_;
  int32_t entry_ = 0;
  std::span<const StoredToken> tokens_;
  std::span<const SampleRecord> samples_;
  std::string_view dropped_;
  DataReport report_;
};

}  // namespace ftune
