// Tensors to safetensors files, one tensor in memory at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "absl/status/status.h"
#include "engine/format/output_tensor.h"

namespace ftune {

// One file, atomically.
absl::Status WriteSafetensors(const std::filesystem::path& path, std::span<const OutputTensor> tensors);

// model.safetensors, or, if the tensors have more than `max_shard_bytes` together,
// model-0000i-of-0000N.safetensors and model.safetensors.index.json. A shard takes tensors in the given order
// until the next would not fit; a tensor that is larger than a shard has one of its own. Weight files that an
// earlier write left in the folder are removed.
absl::Status WriteShards(const std::filesystem::path& folder, std::span<const OutputTensor> tensors,
                         int64_t max_shard_bytes);

}  // namespace ftune
