#include "base/hub/repo_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"
#include "base/mapped_file.h"
#include "base/strings.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> ReadSmallFile(const fs::path& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  return file.ok() ? std::optional(std::string(file->text())) : std::nullopt;
}

}  // namespace

RepoCache::RepoCache(fs::path cache, const Repo& repo)
    : root_(cache / repo.folder()), locks_(cache / ".locks" / repo.folder()) {}

fs::path RepoCache::Incomplete(const RepoFile& file) const {
  return root_ / "blobs" / (file.etag() + ".incomplete");
}

std::optional<std::string> RepoCache::CommitOf(const std::string& revision) const {
  if (IsCommit(revision)) return revision;
  std::optional<std::string> commit = ReadSmallFile(root_ / "refs" / revision);
  if (!commit) return std::nullopt;
  while (!commit->empty() && commit->back() <= ' ') commit->pop_back();
  return IsCommit(*commit) ? commit : std::nullopt;
}

std::optional<std::vector<RepoFile>> RepoCache::Tree(const std::string& commit) const {
  const fs::path path = root_ / "trees" / (commit + ".json");
  const std::optional<std::string> text = ReadSmallFile(path);
  if (!text) return std::nullopt;
  absl::StatusOr<std::vector<RepoFile>> files = TreeFromJson(*text, path.string());
  // One that cannot be read is as good as none: it is asked for again.
  return files.ok() ? std::optional(*std::move(files)) : std::nullopt;
}

std::vector<std::string> RepoCache::FilesOf(const std::string& commit) const {
  std::vector<std::string> files;
  const fs::path folder = Snapshot(commit);
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code broken;  // a link to a blob that is not there
    if (entry->is_regular_file(broken)) files.push_back(entry->path().lexically_relative(folder).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool RepoCache::Has(const std::string& commit, const RepoFile& file) const {
  std::error_code error;
  const uintmax_t size = fs::file_size(Snapshot(commit) / file.path, error);
  return !error && size == static_cast<uintmax_t>(file.size);
}

bool RepoCache::HasBlob(const RepoFile& file) const {
  std::error_code error;
  const uintmax_t size = fs::file_size(Blob(file), error);
  return !error && size == static_cast<uintmax_t>(file.size);
}

absl::Status RepoCache::WriteCommitOf(const std::string& revision, const std::string& commit) const {
  if (revision == commit || CommitOf(revision) == commit) return absl::OkStatus();
  const fs::path path = root_ / "refs" / revision;
  FTUNE_RETURN_IF_ERROR(MakeFolder(path.parent_path()));
  return WriteFileAtomic(path, commit);
}

absl::Status RepoCache::WriteTree(const std::string& commit, const std::vector<RepoFile>& files) const {
  FTUNE_RETURN_IF_ERROR(MakeFolder(root_ / "trees"));
  return WriteFileAtomic(root_ / "trees" / (commit + ".json"), TreeToJson(files));
}

absl::Status RepoCache::Link(const std::string& commit, const RepoFile& file) const {
  const fs::path path = Snapshot(commit) / file.path;
  FTUNE_RETURN_IF_ERROR(MakeFolder(path.parent_path()));
  const fs::path target = Blob(file).lexically_relative(path.parent_path());
  // Renamed into place, so that others see the old file or the new one, never none.
  const fs::path temporary = path.parent_path() / StrCat(".", path.filename().string(), ".tmp-", getpid());
  unlink(temporary.c_str());
  if (symlink(target.c_str(), temporary.c_str()) != 0) return IoError(path, "make the link", errno);
  if (rename(temporary.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  unlink(temporary.c_str());
  return IoError(path, "make the link", error);
}

}  // namespace ftune
