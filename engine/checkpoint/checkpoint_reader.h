// A checkpoint opened for reading: any part of any of its tensors, whatever mesh has written them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/manifest.h"

namespace ftune {

// Where the bytes of a checkpoint's files come from.
class CheckpointBytes {
 public:
  virtual ~CheckpointBytes() = default;
  // `count` bytes of the file from `offset` on; valid until the next call.
  virtual absl::StatusOr<const std::byte*> Read(size_t file, int64_t offset, int64_t count) = 0;
};

// The files in the checkpoint's folder, each mapped when it is first needed.
std::unique_ptr<CheckpointBytes> MapCheckpointFiles(const std::filesystem::path& folder,
                                                    const Manifest& manifest);

class CheckpointReader {
 public:
  // Maps the files of a checkpoint's folder, when they are first needed.
  static absl::StatusOr<CheckpointReader> Open(const std::filesystem::path& folder);
  CheckpointReader(Manifest manifest, std::unique_ptr<CheckpointBytes> bytes);

  const Manifest& manifest() const { return manifest_; }

  // `region` of the tensor, row-major, in the tensor's dtype. The tensor is one of the manifest.
  absl::Status Read(const CheckpointTensor& tensor, const Region& region, std::byte* out);

 private:
  Manifest manifest_;
  std::unique_ptr<CheckpointBytes> bytes_;
};

}  // namespace ftune
