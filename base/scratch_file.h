// An unnamed file for data that is worth nothing without the process: gone when it is closed, even by a
// crash.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace ftune {

class ScratchFile {
 public:
  // Where direct, offsets, sizes and addresses of what is read and written must be multiples of this.
  static constexpr int64_t kAlignment = 4096;

  // `bytes` zeros in `folder`, reserved on the disk. `purpose` says in an error what the space is for.
  static absl::StatusOr<ScratchFile> Create(const std::filesystem::path& folder, int64_t bytes,
                                            std::string_view purpose);
  // An empty file that grows as it is written; never direct.
  static absl::StatusOr<ScratchFile> CreateEmpty(const std::filesystem::path& folder,
                                                 std::string_view purpose);
  ScratchFile(ScratchFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)), direct_(other.direct_) {}
  ScratchFile& operator=(ScratchFile&&) = delete;
  ~ScratchFile();

  int fd() const { return fd_; }
  // Past the page cache (O_DIRECT); some file systems cannot do that.
  bool direct() const { return direct_; }

 private:
  explicit ScratchFile(int fd) : fd_(fd) {}

  int fd_;
  bool direct_ = false;
};

}  // namespace ftune
