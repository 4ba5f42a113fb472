// Whether all ranks are at the same step, with the same facts of it, and whether one of them is to stop.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "parallel/mesh.h"

namespace ftune {

struct StepFacts {
  int64_t step = 0;
  int64_t trained_tokens = 0;
  int64_t microbatches = 0;
  int64_t schedule = 0;  // a hash of what all ranks of the pipeline do
  uint64_t batch_hash =
      0;  // of the microbatches: the same where compares_batches() and the data coordinate is
};

class StepAgreement {
 public:
  // `mesh` outlives it.
  StepAgreement(Mesh& mesh, Stream stream);
  ~StepAgreement() { pending_.Wait().IgnoreError(); }
  StepAgreement(const StepAgreement&) = delete;
  StepAgreement& operator=(const StepAgreement&) = delete;

  // Whether ranks share a data coordinate, that is, train on the same batches.
  bool compares_batches() const { return mesh_.shape().ranks() > mesh_.shape().data; }

  // Waits. An error where the ranks' facts differ, or of the world.
  absl::Status Agree(const StepFacts& facts);

  // The same while something else is computed. Finish waits; true where any rank is to stop.
  void Start(const StepFacts& facts, bool stop);
  absl::StatusOr<bool> Finish();

 private:
  Call Prepare(const StepFacts& facts, bool stop);
  absl::Status Compare() const;
  absl::Status CompareBatches() const;

  Mesh& mesh_;
  Stream stream_;
  StepFacts own_;
  // What the ranks' greatest are made of: each fact and its opposite; who is to stop; where batches are
  // compared, for each data coordinate the hash with a rank that has it, and its opposite.
  std::vector<int64_t> extremes_;
  Pending pending_;
};

}  // namespace ftune
