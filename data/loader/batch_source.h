// The batches of a run, one optimizer step after another.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "data/loader/batch.h"
#include "data/loader/data_position.h"

namespace ftune {

// One global batch, as a rank sees it.
struct StepBatches {
  std::vector<Batch> microbatches;  // this rank's; as many on every rank
  int64_t trained_tokens = 0;       // of the whole global batch: what the step's loss is divided by
  double epoch = 0.0;               // times through the data when it is done, as a log shows it: 1.5
  DataPosition next;                // behind it
};

// Not thread-safe, but for Interrupt.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Nothing at the end of the data.
  virtual absl::StatusOr<std::optional<StepBatches>> Next() = 0;
  // Goes to a position that a source of the same data gave, on any number of ranks. An error where it cannot
  // be one of this data.
  virtual absl::Status Seek(const DataPosition& position) = 0;
  // Of what Next gives next.
  virtual DataPosition position() const = 0;
  // From any thread: makes a Next that waits for its input return soon (as at the end), and those after it.
  virtual void Interrupt() {}
};

}  // namespace ftune
