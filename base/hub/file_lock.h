// A lock between processes on a file's name, as huggingface_hub takes it: flock on a file that stays.
#pragma once

#include <filesystem>
#include <functional>

#include "absl/status/statusor.h"

namespace ftune {

class FileLock {
 public:
  // Waits for others; `on_wait` is called once if there is another. The file's folder is made if need be.
  static absl::StatusOr<FileLock> Take(const std::filesystem::path& path,
                                       const std::function<void()>& on_wait);

  FileLock(FileLock&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace ftune
