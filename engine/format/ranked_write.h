// Writing what many ranks hold: one of them writes, all take part in filling its tensors.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/format/output_tensor.h"
#include "parallel/comm/communicator.h"
#include "parallel/mesh.h"

namespace ftune {

// `tensors` are the same on all ranks, and each must be filled by all of them together. Runs `write` on the
// first rank, with tensors that it may fill when and in what order it likes. An error is that of `write`; on
// the others it says that there was one.
absl::Status WriteOnFirstRank(Communicator& world, std::span<const OutputTensor> tensors,
                              const std::function<absl::Status(std::span<const OutputTensor>)>& write);

// Of the tensors of each pipeline rank's stages (`own`, in ascending order of blocks) those of the whole
// model, on all ranks the same and in the order of one rank that has them all. Each is filled by all ranks
// together: those of its stage make it, and the first of them sends it to the first rank of all, which alone
// has its bytes then. Called by all ranks; `mesh` outlives the tensors.
absl::StatusOr<std::vector<OutputTensor>> TensorsOfAllStages(Mesh& mesh, std::vector<OutputTensor> own);

}  // namespace ftune
