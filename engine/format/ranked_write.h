// Writing what many ranks hold: one of them writes, all take part in filling its tensors.
#pragma once

#include <functional>
#include <span>

#include "absl/status/status.h"
#include "engine/format/output_tensor.h"
#include "parallel/comm/communicator.h"

namespace ftune {

// `tensors` are the same on all ranks, and each must be filled by all of them together. Runs `write` on the
// first rank, with tensors that it may fill when and in what order it likes. An error is that of `write`; on
// the others it says that there was one.
absl::Status WriteOnFirstRank(Communicator& world, std::span<const OutputTensor> tensors,
                              const std::function<absl::Status(std::span<const OutputTensor>)>& write);

}  // namespace ftune
