// Which file a path names, and when that was changed last.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace ftune {

// The number alone does not tell a file from one that was there before: a new file often gets that of one
// which has just been removed.
struct FileState {
  ino_t number = 0;
  int64_t changed = 0;  // nanoseconds

  bool operator==(const FileState&) const = default;
};

// Nothing where there is no file.
std::optional<FileState> StateOf(const std::filesystem::path& path);

}  // namespace ftune
