#include "engine/checkpoint/shard_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/io_error.h"
#include "base/strings.h"

namespace ftune {
namespace {

// What is given to the disk at once, so that it works while the next piece is hashed.
constexpr size_t kPiece = size_t{8} << 20;
// Tensors begin on cache lines, and the first on a page.
constexpr size_t kHeaderAlignment = 4096;

}  // namespace

absl::StatusOr<ShardLayout> LayOutShardFile(const std::string& name,
                                            const std::vector<SafetensorsSpec>& tensors) {
  ShardLayout layout;
  int64_t data = 0;
  FTUNE_ASSIGN_OR_RETURN(layout.header, SafetensorsHeader(name, tensors, kHeaderAlignment, &data));
  auto at = static_cast<int64_t>(layout.header.size());
  for (const SafetensorsSpec& tensor : tensors) {
    layout.offsets.push_back(at);
    at += BytesFor(tensor.dtype, WholeOf(tensor.shape).elements());
  }
  layout.bytes = at;
  return layout;
}

absl::StatusOr<ShardFile> ShardFile::Create(const std::filesystem::path& path, int64_t bytes) {
  Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file) return IoError(path, "create", errno);
  const int error = fallocate(file.get(), 0, 0, bytes) == 0 ? 0 : errno;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) return IoError(path, "reserve space for", error);
  return ShardFile(path, std::move(file), bytes);
}

absl::Status ShardFile::Append(std::span<const std::byte> bytes) {
  if (std::ssize(bytes) > bytes_ - written_)
    return absl::InternalError(StrCat(path_.string(), ": more bytes than were announced"));
  while (!bytes.empty()) {
    const std::span<const std::byte> piece = bytes.first(std::min(bytes.size(), kPiece));
    const ssize_t count = pwrite(file_.get(), piece.data(), piece.size(), written_);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return IoError(path_, "write", count == 0 ? EIO : errno);
    hash_.Add(std::string_view(reinterpret_cast<const char*>(piece.data()), static_cast<size_t>(count)));
    // Only a hint: what it cannot do is done by fsync.
    sync_file_range(file_.get(), written_, count, SYNC_FILE_RANGE_WRITE);
    written_ += count;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointFile> ShardFile::Finish() {
  if (written_ != bytes_)
    return absl::InternalError(StrCat(path_.string(), ": ", bytes_ - written_, " bytes were not given"));
  if (fsync(file_.get()) != 0) return IoError(path_, "flush", errno);
  file_ = {};
  return CheckpointFile{path_.filename().string(), bytes_, hash_.Digest64()};
}

}  // namespace ftune
