#include "base/scratch_file.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/io_error.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr int kMaxNames = 1000;

// The file, or minus an errno.
int OpenUnnamed(const std::filesystem::path& folder) {
  const int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  // A file system, or a kernel, without unnamed files: the name goes as soon as it is there.
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return -errno;
  for (int attempt = 0; attempt < kMaxNames; ++attempt) {
    const std::filesystem::path name = folder / StrCat(".scratch-", getpid(), "-", attempt);
    const int named = open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (named >= 0) {
      unlink(name.c_str());
      return named;
    }
    if (errno != EEXIST) break;
  }
  return -errno;
}

std::string GiB(double bytes) { return absl::StrFormat("%.2f GiB", bytes / (1 << 30)); }

std::string FreeIn(int fd) {
  struct statvfs facts;
  if (fstatvfs(fd, &facts) != 0) return "";
  return StrCat(" (", GiB(static_cast<double>(facts.f_bavail) * static_cast<double>(facts.f_frsize)),
                " are free)");
}

// Some file systems take the flag and then refuse to read.
bool MakeDirect(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) return false;
  alignas(ScratchFile::kAlignment) std::array<char, ScratchFile::kAlignment> probe;
  if (pread(fd, probe.data(), probe.size(), 0) == static_cast<ssize_t>(probe.size())) return true;
  fcntl(fd, F_SETFL, flags);
  return false;
}

}  // namespace

ScratchFile::~ScratchFile() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<ScratchFile> ScratchFile::CreateEmpty(const std::filesystem::path& folder,
                                                     std::string_view purpose) {
  const int fd = OpenUnnamed(folder);
  if (fd < 0) return IoError(folder, StrCat("create a file for ", purpose), -fd);
  return ScratchFile(fd);
}

absl::StatusOr<ScratchFile> ScratchFile::Create(const std::filesystem::path& folder, int64_t bytes,
                                                std::string_view purpose) {
  FTUNE_ASSIGN_OR_RETURN(ScratchFile file, CreateEmpty(folder, purpose));
  const int fd = file.fd();
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(fd, 0, bytes);
  if (error != 0) {
    return IoError(folder,
                   StrCat("reserve ", GiB(static_cast<double>(bytes)), " for ", purpose,
                          error == ENOSPC ? FreeIn(fd) : ""),
                   error);
  }
  file.direct_ = MakeDirect(fd);
  return file;
}

}  // namespace ftune
