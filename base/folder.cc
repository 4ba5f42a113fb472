#include "base/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/io_error.h"

namespace ftune {

bool Exists(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::status(path, error).type() != std::filesystem::file_type::not_found;
}

std::filesystem::path NearestFolder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path nearest = std::filesystem::absolute(folder, error).lexically_normal();
  if (!nearest.has_filename()) nearest = nearest.parent_path();  // "a/." has become "a/"
  while (!std::filesystem::is_directory(nearest, error) && nearest.has_relative_path()) {
    nearest = nearest.parent_path();
  }
  return nearest;
}

absl::StatusOr<std::vector<std::filesystem::path>> ListFolder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    paths.push_back(entry->path());
  }
  if (error) return IoError(folder, "list", error.value());
  std::sort(paths.begin(), paths.end());
  return paths;
}

absl::Status MakeFolder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return IoError(folder, "make the folder", error.value());
  if (!std::filesystem::is_directory(folder, error)) {
    return DataError({.file = folder.string(), .found = "a file", .expected = "a folder"});
  }
  return absl::OkStatus();
}

absl::Status SyncFolder(const std::filesystem::path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return IoError(folder, "open", errno);
  // Some network file systems cannot sync a folder and say EINVAL: there is no more that could be done.
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  if (result != 0 && error != EINVAL) return IoError(folder, "flush", error);
  return absl::OkStatus();
}

absl::Status RemoveFolder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  return error ? IoError(folder, "remove", error.value()) : absl::OkStatus();
}

absl::Status ReplaceFolder(const std::filesystem::path& folder, const std::filesystem::path& target) {
  const bool replaces = Exists(target);
  bool exchanged = false;
  if (replaces) {
    exchanged = renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0;
    if (!exchanged && errno != EINVAL && errno != ENOSYS) return IoError(target, "replace", errno);
    // A file system that cannot exchange names: for a moment there is neither.
    if (!exchanged) FTUNE_RETURN_IF_ERROR(RemoveFolder(target));
  }
  if (!exchanged && rename(folder.c_str(), target.c_str()) != 0) return IoError(target, "rename", errno);
  FTUNE_RETURN_IF_ERROR(SyncFolder(target.has_parent_path() ? target.parent_path() : "."));
  return exchanged ? RemoveFolder(folder) : absl::OkStatus();
}

}  // namespace ftune
