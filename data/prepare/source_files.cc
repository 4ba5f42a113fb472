#include "data/prepare/source_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <memory>

#include "base/error.h"
#include "base/io_error.h"
#include "data/file/list_source.h"

namespace ftune {
namespace {

constexpr size_t kReadAtOnce = size_t{1} << 20;

absl::StatusOr<struct stat> StatOf(const DataFile& file) {
  struct stat info;
  const int result = file.spool ? fstat(file.spool->fd(), &info) : stat(file.path.c_str(), &info);
  if (result != 0) return IoError(file.path, "open", errno);
  return info;
}

bool Equal(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

}  // namespace

absl::StatusOr<HashedFile> HashFile(const DataFile& file) {
  FTUNE_ASSIGN_OR_RETURN(const struct stat info, StatOf(file));
  FTUNE_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> bytes, OpenFileBytes(file));
  HashedFile hashed{.file = file,
                    .device = info.st_dev,
                    .inode = info.st_ino,
                    .modified = info.st_mtim,
                    .changed = info.st_ctim};
  Xxh3Stream hash(Xxh3Stream::Width::k128);
  std::vector<char> buffer(kReadAtOnce);
  for (;;) {
    FTUNE_ASSIGN_OR_RETURN(const size_t count, bytes->Read(buffer.data(), buffer.size()));
    if (count == 0) break;
    hash.Add({buffer.data(), count});
    hashed.size += static_cast<int64_t>(count);
  }
  hashed.hash = hash.Digest128();
  return hashed;
}

absl::Status CheckUnchanged(const HashedFile& file) {
  FTUNE_ASSIGN_OR_RETURN(const struct stat now, StatOf(file.file));
  // The time of change tells writes that were dated back; a spool has nobody else who writes to it.
  if (now.st_dev == file.device && now.st_ino == file.inode && now.st_size == file.size &&
      Equal(now.st_mtim, file.modified) && Equal(now.st_ctim, file.changed)) {
    return absl::OkStatus();
  }
  return DataError({.file = file.file.path,
                    .message = "the file changed while it was being prepared",
                    .hint = "start again when it is complete"});
}

absl::StatusOr<std::vector<DataFile>> ListEntry(const DatasetEntry& entry) {
  if (entry.files.empty()) return ListSource(entry.path);
  std::vector<DataFile> files;
  for (const std::string& path : entry.files) files.push_back({.path = path});
  return files;
}

absl::StatusOr<std::vector<HashedFile>> HashEntry(const DatasetEntry& entry) {
  std::vector<HashedFile> files;
  FTUNE_ASSIGN_OR_RETURN(const std::vector<DataFile> list, ListEntry(entry));
  for (const DataFile& file : list) {
    FTUNE_ASSIGN_OR_RETURN(HashedFile hashed, HashFile(file));
    files.push_back(std::move(hashed));
  }
  return files;
}

}  // namespace ftune
