#include "data/file/list_source.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"
#include "base/strings.h"
#include "data/file/file_kind.h"
#include "data/file/glob.h"

namespace ftune {
namespace {

constexpr char kSpoolName[] = "standard input";
constexpr char kKnownNames[] = ".jsonl, .ndjson, .json, .csv, .tsv, .txt, .parquet, .arrow or .feather files";

absl::Status WriteAll(int fd, const char* data, size_t size, const std::filesystem::path& folder) {
  while (size > 0) {
    const ssize_t count = write(fd, data, size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return IoError(folder, "keep a copy of standard input", errno);
    data += count;
    size -= static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListKnown(const std::string& folder) {
  FTUNE_ASSIGN_OR_RETURN(std::vector<std::string> files, FilesBelow(folder));
  const size_t all = files.size();
  std::erase_if(files, [](const std::string& file) { return !KindByName(file); });
  if (files.empty()) {
    return DataError({.file = folder,
                      .found = all == 0 ? "a folder without files"
                                        : StrCat("a folder with ", all, " files whose names tell nothing"),
                      .expected = StrCat(kKnownNames, ", or .gz or .zst of them")});
  }
  const auto is_text = [](const std::string& file) { return KindByName(file) == FileKind::kText; };
  const auto text = std::find_if(files.begin(), files.end(), is_text);
  const auto table = std::find_if_not(files.begin(), files.end(), is_text);
  if (text != files.end() && table != files.end()) {
    return DataError({.file = folder,
                      .found = StrCat("tables and plain text: ", *table, " and ", *text),
                      .expected = "one of them",
                      .hint = StrCat("name those that you want: ", folder, "/*",
                                     std::filesystem::path(*table).extension().string())});
  }
  return files;
}

absl::StatusOr<std::vector<std::string>> ListMatches(const std::string& pattern) {
  FTUNE_ASSIGN_OR_RETURN(std::vector<std::string> files, MatchFiles(pattern));
  if (files.empty()) {
    return DataError(
        {.file = pattern,
         .message = "no file matches this pattern",
         .hint = "check it; folders do not count: DIR/* has their files, DIR/** those below too"});
  }
  return files;
}

}  // namespace

absl::StatusOr<DataFile> SpoolInput(int fd, const std::filesystem::path& folder) {
  FTUNE_ASSIGN_OR_RETURN(ScratchFile scratch, ScratchFile::CreateEmpty(folder, "a copy of standard input"));
  std::string buffer(size_t{1} << 20, '\0');
  bool any = false;
  for (;;) {
    const ssize_t count = read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return IoError(kSpoolName, "read", errno);
    if (count == 0) break;
    any = true;
    FTUNE_RETURN_IF_ERROR(WriteAll(scratch.fd(), buffer.data(), static_cast<size_t>(count), folder));
  }
  if (!any) {
    return DataError(
        {.file = kSpoolName,
         .found = "nothing",
         .expected = "rows",
         .hint = "it can be read once: name it in one place, and send the rows again for a further run"});
  }
  return DataFile{kSpoolName, std::make_shared<const ScratchFile>(std::move(scratch))};
}

absl::StatusOr<std::vector<DataFile>> ListSource(const std::string& path) {
  if (path == kStandardInput) {
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
    if (error) return IoError("the folder for temporary files", "find", error.value());
    FTUNE_ASSIGN_OR_RETURN(DataFile input, SpoolInput(STDIN_FILENO, folder));
    return std::vector<DataFile>{std::move(input)};
  }
  std::vector<std::string> paths = {path};
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    FTUNE_ASSIGN_OR_RETURN(paths, ListKnown(path));
  } else if (IsPattern(path) && !Exists(path)) {
    FTUNE_ASSIGN_OR_RETURN(paths, ListMatches(path));
  }
  std::vector<DataFile> files;
  files.reserve(paths.size());
  for (std::string& file : paths) files.push_back({std::move(file), nullptr});
  return files;
}

}  // namespace ftune
