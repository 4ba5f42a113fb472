// The state of a run on one rank in a file, and how far another mesh's state is from it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/verify/state_part.h"
#include "parallel/comm/communicator.h"

namespace ftune {

// Of whole parameters, one part each, as safetensors in f32.
absl::Status WriteReference(Backend& backend, const std::vector<StatePart>& parts,
                            const std::filesystem::path& path);

struct TensorDifference {
  std::string name;         // of the parameter
  double difference = 0.0;  // ‖x - x′‖, x′ the reference's
  double norm = 0.0;        // ‖x′‖
};

// Compares what all ranks of `world` have with the file, each rank its own parts; all get all differences, in
// the order of the file. An error where a tensor of the file is not covered by the ranks' parts, each element
// as often as every other, or a part has no tensor in the file.
absl::StatusOr<std::vector<TensorDifference>> CompareWithReference(Backend& backend,
                                                                   const std::vector<StatePart>& parts,
                                                                   const std::filesystem::path& path,
                                                                   Communicator& world);

// The same of two files with the same tensors.
absl::StatusOr<std::vector<TensorDifference>> DifferencesOfFiles(const std::filesystem::path& path,
                                                                 const std::filesystem::path& reference);

// The largest of difference ÷ max(norm, 10⁻³ × the norm of all together): some gradients are zero in
// mathematics and noise in arithmetic. Not a number counts as infinity. With no tensors, nothing differs.
struct WorstTensor {
  std::string name;
  double error = 0.0;
};
WorstTensor WorstOf(const std::vector<TensorDifference>& differences);

}  // namespace ftune
