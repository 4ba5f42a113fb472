// How far two checkpoints' tensors are apart, whatever meshes have written them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_reader.h"

namespace ftune {

struct SavedDifference {
  std::string name;              // of the parameter
  std::string state;             // of the optimizer; empty: the parameter's value
  std::string why_not_compared;  // shapes that differ, say; the numbers are 0 then
  int64_t elements = 0;
  int64_t different = 0;
  int64_t not_finite = 0;     // of the different ones: those that are no finite numbers in one of the two
  double max_absolute = 0.0;  // |a - b|, of the others
  double max_relative = 0.0;  // |a - b| / max(|a|, |b|), likewise
};

struct CheckpointDifference {
  std::vector<SavedDifference> tensors;  // that are in both, values first
  // "model.norm.weight", "model.norm.weight: exp_avg"
  std::vector<std::string> only_in_first, only_in_second;

  bool equal() const;
};

// Reads both, some rows of a tensor at a time.
absl::StatusOr<CheckpointDifference> CompareCheckpoints(CheckpointReader& first, CheckpointReader& second);

}  // namespace ftune
