#include "engine/format/ranked_write.h"

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/tensor_bytes.h"

namespace ftune {
namespace {

constexpr int64_t kDone = -1, kFailed = -2;

// Says on the first rank, and hears on the others, which tensor is filled next, or that none is.
absl::StatusOr<int64_t> Next(Communicator& world, int64_t next) {
  FTUNE_RETURN_IF_ERROR(
      world.Run(Call::Broadcast({reinterpret_cast<std::byte*>(&next), 1, DType::kI64, {}}, 0)));
  return next;
}

absl::Status Lead(Communicator& world, std::span<const OutputTensor> tensors,
                  const std::function<absl::Status(std::span<const OutputTensor>)>& write) {
  std::vector<OutputTensor> together(tensors.begin(), tensors.end());
  for (size_t i = 0; i < together.size(); ++i) {
    together[i].fill = [&world, i, fill = tensors[i].fill](std::byte* out) -> absl::Status {
      FTUNE_RETURN_IF_ERROR(Next(world, static_cast<int64_t>(i)).status());
      return fill(out);
    };
  }
  const absl::Status written = write(together);
  const absl::Status told = Next(world, written.ok() ? kDone : kFailed).status();
  FTUNE_RETURN_IF_ERROR(written);
  return told;
}

absl::Status Follow(Communicator& world, std::span<const OutputTensor> tensors) {
  std::vector<std::byte> unused;
  for (;;) {
    FTUNE_ASSIGN_OR_RETURN(const int64_t next, Next(world, kDone));
    if (next == kDone) return absl::OkStatus();
    if (next == kFailed) {
      return UserError(ExitCode::kRankFailed,
                       {.key = "rank 0", .message = "it could not write the model; its own error says why"});
    }
    const OutputTensor& tensor = tensors[next];
    FTUNE_ASSIGN_OR_RETURN(const int64_t bytes, CheckedBytes(tensor.dtype, tensor.shape));
    unused.resize(bytes);
    FTUNE_RETURN_IF_ERROR(tensor.fill(unused.data()));
  }
}

}  // namespace

absl::Status WriteOnFirstRank(Communicator& world, std::span<const OutputTensor> tensors,
                              const std::function<absl::Status(std::span<const OutputTensor>)>& write) {
  return world.rank() == 0 ? Lead(world, tensors, write) : Follow(world, tensors);
}

}  // namespace ftune
