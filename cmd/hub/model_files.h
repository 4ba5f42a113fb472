// Which files of a model's repository are needed, and which are not.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ftune {

enum class ModelParts { kAll, kTokenizer, kConfig };

// Of a model: its configuration, its weights as safetensors, its tokenizer's files; of an adapter likewise.
// Of kConfig its configuration alone. Never pickles. An error, with `id` in it, where there are no such
// weights.
absl::StatusOr<std::vector<std::string>> ChooseModelFiles(const std::vector<std::string>& paths,
                                                          ModelParts parts, const std::string& id);

// Whether `paths`, which may be a part of what the repository has, are surely enough.
bool IsWholeModel(const std::vector<std::string>& paths, ModelParts parts);

// Whether all parts of files named NAME-00001-of-00003.TYPE are among `paths`.
bool HasAllShards(const std::vector<std::string>& paths);

}  // namespace ftune
