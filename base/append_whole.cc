#include "base/append_whole.h"

#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <tuple>

#include "base/io_error.h"

namespace ftune {

absl::Status AppendWhole(const Descriptor& file, std::string_view record, const std::filesystem::path& path) {
  const ssize_t written = write(file.get(), record.data(), record.size());
  if (written == std::ssize(record)) return absl::OkStatus();
  const int error = written < 0 ? errno : ENOSPC;
  const off_t end = written > 0 ? lseek(file.get(), 0, SEEK_CUR) : 0;
  if (end > 0 && end == lseek(file.get(), 0, SEEK_END)) std::ignore = ftruncate(file.get(), end - written);
  return IoError(path, "write", error);
}

}  // namespace ftune
