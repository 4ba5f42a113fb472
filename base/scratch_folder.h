// A temporary folder that is removed with everything in it.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"

namespace ftune {

class ScratchFolder {
 public:
  static absl::StatusOr<ScratchFolder> Create();
  ScratchFolder(ScratchFolder&& other) noexcept { path_.swap(other.path_); }
  ScratchFolder& operator=(ScratchFolder&& other) noexcept {
    path_.swap(other.path_);
    return *this;
  }
  ~ScratchFolder();

  const std::filesystem::path& path() const { return path_; }

  // Removes all but what is at `within`, relative to it and without "..", and leaves that to the user.
  void KeepOnly(const std::filesystem::path& within);

 private:
  ScratchFolder() = default;
  std::filesystem::path path_;
};

}  // namespace ftune
