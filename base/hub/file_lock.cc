#include "base/hub/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"

namespace ftune {
namespace {

int Flock(int descriptor, int operation) {
  int result;
  do {
    result = flock(descriptor, operation);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

}  // namespace

absl::StatusOr<FileLock> FileLock::Take(const std::filesystem::path& path,
                                        const std::function<void()>& on_wait) {
  FTUNE_RETURN_IF_ERROR(MakeFolder(path.parent_path()));
  while (true) {
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
    if (descriptor < 0) return IoError(path, "open the lock file", errno);
    FileLock lock(descriptor);
    int error = Flock(descriptor, LOCK_EX | LOCK_NB);
    if (error == EWOULDBLOCK) {
      on_wait();
      error = Flock(descriptor, LOCK_EX);
    }
    if (error != 0) return IoError(path, "lock (is its file system without locks? Set HF_HUB_CACHE)", error);
    // Some versions of its owners' library remove the file: then another one holds the name.
    struct stat status;
    if (fstat(descriptor, &status) == 0 && status.st_nlink > 0) return lock;
  }
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace ftune
