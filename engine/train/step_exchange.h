// What the ranks tell each other once a step where none of them waits for the others: how the step before
// went, and what each is about to do.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/train/step_agreement.h"
#include "engine/train/step_costs.h"
#include "parallel/comm/communicator.h"

namespace ftune {

// Of one rank, as it begins a step.
struct StepRecord {
  StepFacts facts;
  int64_t stops = 0;     // 1: it is to stop
  int64_t saves = 0;     // 1: it wants the state behind the step saved
  int64_t has_next = 0;  // 1: it has what the step behind this one is to be made of
  // What is known on this rank of the step before, which is not settled yet.
  double loss = 0.0;     // Σ token losses of its microbatches
  double squares = 0.0;  // Σ g² over what it owns, with the loss scale in them
  StepCosts costs;
};

class StepExchange {
 public:
  // `group` has all ranks of the world, a mesh of `shape`, and is used for nothing else: what others wait for
  // elsewhere does not wait for a step's end.
  StepExchange(const MeshShape& shape, std::unique_ptr<Communicator> group, Stream stream)
      : shape_(shape), group_(std::move(group)), stream_(stream) {}
  ~StepExchange() { pending_.Wait().IgnoreError(); }
  StepExchange(const StepExchange&) = delete;
  StepExchange& operator=(const StepExchange&) = delete;

  // Begins to tell the others; Finish waits for theirs. An error of the group, or where the ranks' facts
  // differ.
  void Start(const StepRecord& own);
  absl::StatusOr<std::vector<StepRecord>> Finish();

  CommTraffic traffic() const { return group_->traffic(); }

 private:
  MeshShape shape_;
  std::unique_ptr<Communicator> group_;
  Stream stream_;
  std::vector<StepRecord> table_;  // by rank
  Pending pending_;
};

}  // namespace ftune
