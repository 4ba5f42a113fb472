#include "base/scratch_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

absl::StatusOr<ScratchFolder> ScratchFolder::Create() {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  std::string name = (parent / "ftune-XXXXXX").string();
  if (error || mkdtemp(name.data()) == nullptr) {
    return DataError(
        {.file = parent.string(),
         .message = StrCat("a temporary folder cannot be made: ", error ? error.message() : strerror(errno)),
         .hint = "set TMPDIR to a folder that can be written to"});
  }
  ScratchFolder folder;
  folder.path_ = name;
  return folder;
}

ScratchFolder::~ScratchFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void ScratchFolder::KeepOnly(const std::filesystem::path& within) {
  std::filesystem::path folder = std::exchange(path_, {});
  for (const std::filesystem::path& kept : within) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      if (entry.path().filename() != kept) std::filesystem::remove_all(entry.path(), error);
    }
    folder /= kept;
  }
}

}  // namespace ftune
