// Rows of samples that are made while they are read: for data without an end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "data/store/token_store.h"

namespace ftune {

// The samples of one row; none where the row was dropped.
using StreamedRow = std::vector<std::vector<StoredToken>>;

// Not thread-safe, but for Interrupt. The rows are a function of the input alone.
class RowStream {
 public:
  virtual ~RowStream() = default;
  // Nothing at the end, and where it was interrupted.
  virtual absl::StatusOr<std::optional<StreamedRow>> Next() = 0;
  // Passes over so many rows without making their samples; returns how many there were.
  virtual absl::StatusOr<int64_t> Skip(int64_t rows) = 0;
  // From any thread: a Next or Skip that waits for input returns soon.
  virtual void Interrupt() {}
};

// The input from its begin on.
struct RowInput {
  std::function<absl::StatusOr<std::unique_ptr<RowStream>>()> open;
  bool rereadable = true;  // may be opened more than once
};

}  // namespace ftune
