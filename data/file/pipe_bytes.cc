#include "data/file/pipe_bytes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/io_error.h"

namespace ftune {

bool IsPipe(const std::string& path) {
  struct stat info;
  if (path == "-") return true;
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

absl::StatusOr<std::shared_ptr<PipeBytes>> PipeBytes::Open(const std::string& path) {
  const std::string name = path == "-" ? "standard input" : path;
  // O_NONBLOCK: opening a pipe must not wait for a writer; poll does that, and can be interrupted.
  const int fd = path == "-" ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                             : open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return IoError(name, "open", errno);
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    const int error = errno;
    close(fd);
    return IoError(name, "open", error);
  }
  return std::shared_ptr<PipeBytes>(new PipeBytes(name, fd, wake));
}

PipeBytes::~PipeBytes() {
  close(fd_);
  close(wake_);
}

absl::StatusOr<size_t> PipeBytes::Read(char* to, size_t size) {
  for (;;) {
    pollfd ready[] = {{.fd = fd_, .events = POLLIN, .revents = 0},
                      {.fd = wake_, .events = POLLIN, .revents = 0}};
    if (poll(ready, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return IoError(name_, "read", errno);
    }
    if (ready[1].revents != 0) return absl::CancelledError("reading was interrupted");
    const ssize_t count = read(fd_, to, size);
    if (count >= 0) return static_cast<size_t>(count);
    if (errno != EINTR && errno != EAGAIN) return IoError(name_, "read", errno);
  }
}

void PipeBytes::Interrupt() {
  const uint64_t one = 1;
  // It only fails where it was called before.
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
}

}  // namespace ftune
