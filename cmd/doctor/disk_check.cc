// How fast the disk of a run's output is: a file without a name, of which nothing stays, however this ends.

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/folder.h"
#include "base/monotonic_clock.h"
#include "base/scratch_file.h"
#include "base/strings.h"
#include "cmd/doctor/host_checks.h"
#include "cmd/report/progress.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBytes = 256'000'000;
constexpr size_t kPiece = 8'000'000;
constexpr absl::Duration kLongest = absl::Seconds(10);  // of each half, on a slow disk

struct Transfer {
  int64_t bytes = 0;
  double seconds = 0.0;
  int error = 0;

  std::string Rate() const {
    return absl::StrFormat("%.0f MB/s", static_cast<double>(bytes) / std::max(seconds, 1e-9) * 1e-6);
  }
};

// Calls `move` with a place in the file until all is moved, or the time is over.
template <class Move>
Transfer Repeat(int64_t bytes, const Move& move) {
  Transfer transfer;
  const absl::Duration begin = MonotonicNow();
  while (transfer.bytes < bytes && MonotonicNow() - begin < kLongest) {
    const ssize_t count = move(std::min<int64_t>(kPiece, bytes - transfer.bytes), transfer.bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      transfer.error = count < 0 ? errno : EIO;
      break;
    }
    transfer.bytes += count;
  }
  transfer.seconds = absl::ToDoubleSeconds(MonotonicNow() - begin);
  return transfer;
}

Transfer WriteTo(int file) {
  std::vector<char> piece(kPiece);
  // Some file systems and disks store what is all alike without writing it.
  uint64_t value = 1;
  for (char& c : piece)
    c = static_cast<char>((value = value * 6364136223846793005u + 1442695040888963407u) >> 56);
  const absl::Duration begin = MonotonicNow();
  Transfer transfer =
      Repeat(kBytes, [&](size_t size, off_t at) { return pwrite(file, piece.data(), size, at); });
  if (transfer.error == 0 && fsync(file) != 0) transfer.error = errno;
  transfer.seconds = absl::ToDoubleSeconds(MonotonicNow() - begin);
  return transfer;
}

Transfer ReadFrom(int file, int64_t bytes) {
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);  // from the disk, not from memory
  std::vector<char> piece(kPiece);
  return Repeat(bytes, [&](size_t size, off_t at) { return pread(file, piece.data(), size, at); });
}

}  // namespace

Check CheckDisk(const fs::path& folder) {
  const fs::path nearest = NearestFolder(folder);
  struct statvfs facts = {};
  if (statvfs(nearest.c_str(), &facts) != 0) {
    return {.name = "disk", .ok = false, .detail = StrCat(nearest.string(), ": ", strerror(errno))};
  }
  const auto free = static_cast<int64_t>(facts.f_bavail * facts.f_frsize);
  Check check = {.name = "disk", .detail = StrCat(nearest.string(), ": ", HumanBytes(free), " are free")};
  const auto failed = [&](const std::string& why) {
    check.ok = false;
    StrAppend(check.detail, "; ", why);
    return check;
  };
  if (free < 2 * kBytes) return failed("too little for a checkpoint of any model, nor is its speed measured");
  const absl::StatusOr<ScratchFile> file = ScratchFile::CreateEmpty(nearest, "a measurement");
  if (!file.ok()) return failed(InWords(file.status()));
  const Transfer written = WriteTo(file->fd());
  if (written.error != 0) return failed(StrCat("cannot be written: ", strerror(written.error)));
  const Transfer read = ReadFrom(file->fd(), written.bytes);
  if (read.error != 0) return failed(StrCat("cannot be read: ", strerror(read.error)));
  StrAppend(check.detail, absl::StrFormat("; %d MB written and flushed at ", written.bytes / 1'000'000),
            written.Rate(), ", read at ", read.Rate());
  return check;
}

}  // namespace ftune
