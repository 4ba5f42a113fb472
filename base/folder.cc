#include "base/folder.h"

#include <algorithm>

#include "base/error.h"
#include "base/io_error.h"

namespace ftune {

bool Exists(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::status(path, error).type() != std::filesystem::file_type::not_found;
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

}  // namespace ftune
