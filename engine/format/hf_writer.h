// Writes a model as a Hugging Face folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/folder.h"
#include "engine/format/hf_model.h"
#include "engine/format/output_tensor.h"

namespace ftune {

inline constexpr int64_t kDefaultShardBytes = 5'000'000'000;

// The folder that `base` was opened from, with other weights: the tokenizer's files and
// generation_config.json byte for byte, config.json with its dtype field alone changed (to the type that most
// bytes of the tensors have). For a GGUF base these files are made from its metadata. `folder` is made if
// need be and must not be the base's own. lm_head.weight of a tied model is left out. config.json is written
// last: a folder without it is not complete.
absl::Status WriteHfModel(const ModelFiles& base, const std::filesystem::path& folder,
                          std::span<const OutputTensor> tensors,
                          int64_t max_shard_bytes = kDefaultShardBytes);

// The tokenizer's part of it: what an adapter's folder gets too. With base.chat_template as its template,
// where there is one.
absl::Status WriteTokenizerFiles(const ModelFiles& base, const std::filesystem::path& folder);

}  // namespace ftune
