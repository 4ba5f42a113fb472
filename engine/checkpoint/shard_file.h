// A file of a checkpoint while it is written: a safetensors file whose bytes are hashed as they pass, and are
// on the disk when it is finished.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/descriptor.h"
#include "base/safetensors.h"
#include "base/xxh3_stream.h"
#include "engine/checkpoint/manifest.h"

namespace ftune {

// Where each tensor's bytes will be in the file.
struct ShardLayout {
  std::string header;
  std::vector<int64_t> offsets;  // of the tensors, from the beginning of the file
  int64_t bytes = 0;             // of the whole file
};
absl::StatusOr<ShardLayout> LayOutShardFile(const std::string& name,
                                            const std::vector<SafetensorsSpec>& tensors);

class ShardFile {
 public:
  // A new file of `bytes`, for which the disk has room when this returns, where the file system can say so.
  static absl::StatusOr<ShardFile> Create(const std::filesystem::path& path, int64_t bytes);

  // In pieces of any size, from the header on.
  absl::Status Append(std::span<const std::byte> bytes);
  absl::Status Append(const std::string& text) {
    return Append(std::as_bytes(std::span(text.data(), text.size())));
  }
  // Durable when it returns; the folder's entry for it is not.
  absl::StatusOr<CheckpointFile> Finish();

 private:
  ShardFile(std::filesystem::path path, Descriptor file, int64_t bytes)
      : path_(std::move(path)), file_(std::move(file)), bytes_(bytes) {}

  std::filesystem::path path_;
  Descriptor file_;
  int64_t bytes_;  // that it will have
  int64_t written_ = 0;
  Xxh3Stream hash_;
};

}  // namespace ftune
