#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"
#include "base/mapped_file.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr int kMaxTemporaryNames = 1000;

std::filesystem::path FolderOf(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path, std::filesystem::path temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)) {}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::filesystem::path& path) {
  if (!path.has_filename()) {
    return DataError({.file = path.string(), .message = "cannot create: the path has no file name"});
  }
  for (int attempt = 0; attempt < kMaxTemporaryNames; ++attempt) {
    std::filesystem::path temporary =
        FolderOf(path) / StrCat(".", path.filename().string(), ".tmp-", getpid(), "-", attempt);
    const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return AtomicFile(path, std::move(temporary), fd);
    if (errno != EEXIST) return IoError(path, "create", errno);
  }
  return IoError(path, "create a temporary file beside it", EEXIST);
}

absl::Status AtomicFile::Append(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) {
    FTUNE_RETURN_IF_ERROR(WriteAll(buffer_));
    buffer_.clear();
  }
  if (bytes.size() >= kBufferBytes) return WriteAll(bytes);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return absl::OkStatus();
}

absl::Status AtomicFile::WriteAll(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return IoError(path_, "write", errno);
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit(Durability durability) {
  FTUNE_RETURN_IF_ERROR(WriteAll(buffer_));
  buffer_.clear();
  const bool waits = durability == Durability::kOnDisk;
  if (waits && fsync(fd_) != 0) return IoError(path_, "flush", errno);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return IoError(path_, "replace", errno);
  close(std::exchange(fd_, -1));
  return waits ? SyncFolder(FolderOf(path_)) : absl::OkStatus();
}

absl::Status WriteFileAtomic(const std::filesystem::path& path, std::string_view text,
                             Durability durability) {
  FTUNE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  FTUNE_RETURN_IF_ERROR(file.Append(text));
  return file.Commit(durability);
}

absl::Status CopyFileAtomic(const std::filesystem::path& from, const std::filesystem::path& to) {
  FTUNE_ASSIGN_OR_RETURN(const MappedFile source, MappedFile::Open(from));
  return WriteFileAtomic(to, source.text());
}

}  // namespace ftune
