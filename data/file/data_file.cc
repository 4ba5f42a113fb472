#include "data/file/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/io_error.h"
#include "base/strings.h"

namespace ftune {
namespace {

class FileBytes : public ByteSource {
 public:
  // Takes over `owned`, which is -1 where the file is a spool.
  FileBytes(DataFile file, int owned, const struct stat& opened)
      : file_(std::move(file)), owned_(owned), fd_(owned >= 0 ? owned : file_.spool->fd()), opened_(opened) {}
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  ~FileBytes() override {
    if (owned_ >= 0) close(owned_);
  }

  absl::StatusOr<size_t> Read(char* to, size_t size) override {
    const auto left = static_cast<size_t>(opened_.st_size - offset_);
    if (left == 0) {
      FTUNE_RETURN_IF_ERROR(CheckUnchanged());
      return 0;
    }
    ssize_t count;
    do {
      count = pread(fd_, to, std::min(size, left), offset_);
    } while (count < 0 && errno == EINTR);
    if (count < 0) return IoError(file_.path, "read", errno);
    if (count == 0) return Changed(StrCat(offset_, " bytes"));
    offset_ += count;
    return static_cast<size_t>(count);
  }

 private:
  absl::Status CheckUnchanged() const {
    struct stat now;
    if (fstat(fd_, &now) != 0) return IoError(file_.path, "read", errno);
    if (now.st_size != opened_.st_size) return Changed(StrCat(now.st_size, " bytes"));
    if (now.st_mtim.tv_sec != opened_.st_mtim.tv_sec || now.st_mtim.tv_nsec != opened_.st_mtim.tv_nsec) {
      return Changed("another time of writing");
    }
    return absl::OkStatus();
  }

  absl::Status Changed(std::string found) const {
    return DataError({.file = file_.path,
                      .message = "the file changed while it was being read",
                      .found = std::move(found),
                      .expected = StrCat(opened_.st_size, " bytes, as when it was opened"),
                      .hint = "start again when it is complete"});
  }

  DataFile file_;
  int owned_;
  int fd_;
  struct stat opened_;
  off_t offset_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFileBytes(const DataFile& file) {
  struct stat info;
  if (file.spool) {
    if (fstat(file.spool->fd(), &info) != 0) return IoError(file.path, "read", errno);
    return std::make_unique<FileBytes>(file, -1, info);
  }
  // O_NONBLOCK: opening a pipe must not wait for a writer; it has no effect on regular files.
  const int fd = open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return IoError(file.path, "open", errno);
  if (fstat(fd, &info) != 0) {
    const int error = errno;
    close(fd);
    return IoError(file.path, "read", error);
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    const bool folder = S_ISDIR(info.st_mode);
    return DataError({.file = file.path,
                      .found = folder                   ? "a folder"
                               : S_ISFIFO(info.st_mode) ? "a pipe"
                                                        : "a device or socket",
                      .expected = "a regular file",
                      .hint = folder ? "" : "name it - and send the rows on standard input"});
  }
  posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  return std::make_unique<FileBytes>(file, fd, info);
}

}  // namespace ftune
