// What a model's files hold, in short: to tell whether two hosts have the same model without reading all of
// it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ftune {

struct FileFingerprint {
  std::string path;
  int64_t bytes = 0;
  uint64_t hash = 0;
};

// Of config.json, all of it; of each file with weights its size, its first 64 KiB (a header) and, for each
// tensor that the model uses, name, type, shape and a sample of its bytes: all of 8 KiB or less, else eight
// times 1 KiB at even distances, the first and the last among them. So another training of the same model is
// always seen, a single changed number not. Of a Hugging Face folder or a .gguf file, whether quantised or
// not.
absl::StatusOr<std::vector<FileFingerprint>> FingerprintModel(const std::filesystem::path& model);
// The same of a PEFT folder.
absl::StatusOr<std::vector<FileFingerprint>> FingerprintAdapter(const std::filesystem::path& folder);

}  // namespace ftune
