#include "base/file_state.h"

#include <sys/stat.h>

namespace ftune {

std::optional<FileState> StateOf(const std::filesystem::path& path) {
  constexpr int64_t kNanoseconds = 1'000'000'000;
  struct stat file;
  if (stat(path.c_str(), &file) != 0) return std::nullopt;
  return FileState{.number = file.st_ino,
                   .changed = file.st_ctim.tv_sec * kNanoseconds + file.st_ctim.tv_nsec};
}

}  // namespace ftune
