// Whether all ranks are at the same step, with the same facts of it, and whether one of them is to stop.
#pragma once

#include <array>

#include "absl/status/statusor.h"
#include "parallel/comm/communicator.h"

namespace ftune {

struct StepFacts {
  int64_t step = 0;
  int64_t trained_tokens = 0;
  int64_t microbatches = 0;
  int64_t schedule = 0;  // a hash of what all ranks of the pipeline do
};

class StepAgreement {
 public:
  // `world` outlives it.
  StepAgreement(Communicator& world, Stream stream) : world_(world), stream_(stream) {}
  ~StepAgreement() { pending_.Wait().IgnoreError(); }
  StepAgreement(const StepAgreement&) = delete;
  StepAgreement& operator=(const StepAgreement&) = delete;

  // Waits. An error where the ranks' facts differ, or of the world.
  absl::Status Agree(const StepFacts& facts);

  // The same while something else is computed. Finish waits; true where any rank is to stop.
  void Start(const StepFacts& facts, bool stop);
  absl::StatusOr<bool> Finish();

 private:
  static constexpr size_t kFacts = 4;

  Call Prepare(const StepFacts& facts, bool stop);
  absl::Status Compare() const;

  Communicator& world_;
  Stream stream_;
  StepFacts own_;
  // The greatest of each fact, and of its opposite; then of who is to stop.
  std::array<int64_t, 2 * kFacts + 1> extremes_{};
  Pending pending_;
};

}  // namespace ftune
