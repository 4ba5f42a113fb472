// Several streams of rows as one.
#pragma once

#include <memory>
#include <vector>

#include "data/loader/row_stream.h"

namespace ftune {

// How many rows each stream gives while all go on is in proportion to its weight; one of weight 0 gives none.
struct WeightedRows {
  std::unique_ptr<RowStream> rows;
  double weight = 1.0;
};

class InterleavedRows final : public RowStream {
 public:
  explicit InterleavedRows(std::vector<WeightedRows> streams);

  absl::StatusOr<std::optional<StreamedRow>> Next() override;
  absl::StatusOr<int64_t> Skip(int64_t rows) override;
  void Interrupt() override;

 private:
  struct Turns {
    WeightedRows stream;
    int64_t taken = 0;
    bool ended = false;
  };
  // The stream whose turn it is: of those that go on, the one that is least far; null where all have ended.
  Turns* Turn();

  std::vector<Turns> streams_;
};

// One stream after the other.
class ConcatenatedRows final : public RowStream {
 public:
  explicit ConcatenatedRows(std::vector<std::unique_ptr<RowStream>> streams) : streams_(std::move(streams)) {}

  absl::StatusOr<std::optional<StreamedRow>> Next() override;
  absl::StatusOr<int64_t> Skip(int64_t rows) override;
  void Interrupt() override;

 private:
  std::vector<std::unique_ptr<RowStream>> streams_;
  size_t current_ = 0;
};

}  // namespace ftune
