// Files that appear complete or not at all: written beside their final name, flushed to disk, then renamed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ftune {

enum class Durability {
  kOnDisk,   // when it returns
  kInCache,  // not waited for: where the machine fails it may be the old file, the new one or an empty one
};

// A stream into a temporary file in the target's folder. Commit makes it the target; without Commit the
// destructor removes it and the target stays as it was.
class AtomicFile {
 public:
  static absl::StatusOr<AtomicFile> Create(const std::filesystem::path& path);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) = delete;
  AtomicFile(const AtomicFile&) = delete;
  ~AtomicFile();

  absl::Status Append(std::span<const std::byte> bytes);
  absl::Status Append(std::string_view text) {
    return Append(std::as_bytes(std::span(text.data(), text.size())));
  }
  // Flushes, fsyncs, renames over the target and fsyncs the folder. Nothing may be appended after it.
  absl::Status Commit(Durability durability = Durability::kOnDisk);

  const std::filesystem::path& path() const { return path_; }

 private:
  AtomicFile(std::filesystem::path path, std::filesystem::path temporary, int fd);
  absl::Status WriteAll(std::span<const std::byte> bytes);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  std::vector<std::byte> buffer_;
};

absl::Status WriteFileAtomic(const std::filesystem::path& path, std::string_view text,
                             Durability durability = Durability::kOnDisk);
// Byte for byte.
absl::Status CopyFileAtomic(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace ftune
