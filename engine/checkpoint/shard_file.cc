#include "engine/checkpoint/shard_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/io_error.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr int64_t kPiece = int64_t{4} << 20;
constexpr size_t kPieces = 3;
constexpr int64_t kBlock = 4096;  // of a disk, at most: addresses and sizes of direct writes are multiples
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

void ShardFile::Piece::Free::operator()(std::byte* data) const { std::free(data); }

ShardFile::ShardFile(std::filesystem::path path, Descriptor file, int64_t bytes, bool direct)
    : path_(std::move(path)), file_(std::move(file)), bytes_(bytes), direct_(direct), pieces_(kPieces) {
  int no_uring = 0;
  queue_ = MakeUringQueue(file_.get(), direct_, kPieces, no_uring);
  if (!queue_) queue_ = MakeThreadQueue(file_.get());
}

ShardFile::~ShardFile() {
  if (!queue_) return;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    while (pieces_[i].in_flight) Settle(i).IgnoreError();  // errors of other pieces come here too
  }
}

absl::StatusOr<ShardFile> ShardFile::Create(const std::filesystem::path& path, int64_t bytes) {
  Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file) return IoError(path, "create", errno);
  const int error = fallocate(file.get(), 0, 0, bytes) == 0 ? 0 : errno;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) return IoError(path, "reserve space for", error);
  const bool direct = fcntl(file.get(), F_SETFL, O_DIRECT) == 0;
  ShardFile made(path, std::move(file), bytes, direct);
  for (Piece& piece : made.pieces_) {
    piece.data.reset(static_cast<std::byte*>(std::aligned_alloc(kBlock, kPiece)));
    if (!piece.data) return IoError(path, "write", ENOMEM);
  }
  return made;
}

absl::Status ShardFile::Append(std::span<const std::byte> bytes) {
  if (std::ssize(bytes) > bytes_ - filled_)
    return absl::InternalError(StrCat(path_.string(), ": more bytes than were announced"));
  while (!bytes.empty()) {
    Piece& piece = pieces_[current_];
    const std::span<const std::byte> part =
        bytes.first(std::min(bytes.size(), static_cast<size_t>(kPiece - piece.filled)));
    std::memcpy(piece.data.get() + piece.filled, part.data(), part.size());
    hash_.Add(std::string_view(reinterpret_cast<const char*>(part.data()), part.size()));
    piece.filled += std::ssize(part);
    filled_ += std::ssize(part);
    bytes = bytes.subspan(part.size());
    if (piece.filled == kPiece) FTUNE_RETURN_IF_ERROR(PassOn());
  }
  return absl::OkStatus();
}

absl::Status ShardFile::PassOn() {
  Submit(current_);
  current_ = (current_ + 1) % pieces_.size();
  FTUNE_RETURN_IF_ERROR(Settle(current_));
  Piece& next = pieces_[current_];
  next.begin = filled_;
  next.filled = next.done = 0;
  return absl::OkStatus();
}

void ShardFile::Submit(size_t number) {
  Piece& piece = pieces_[number];
  // The end of a file is not that of a block: what is too much is cut off at the end.
  const int64_t end = direct_ ? (piece.filled + kBlock - 1) / kBlock * kBlock : piece.filled;
  piece.in_flight = true;
  queue_->Submit({.id = number,
                  .write = true,
                  .data = piece.data.get() + piece.done,
                  .bytes = static_cast<uint32_t>(end - piece.done),
                  .offset = piece.begin + piece.done});
}

absl::Status ShardFile::Settle(size_t number) {
  while (pieces_[number].in_flight) {
    const std::optional<IoResult> result = queue_->Take(/*wait=*/true);
    if (!result) {
      pieces_[number].in_flight = false;
      return IoError(path_, "write", EIO);
    }
    FTUNE_RETURN_IF_ERROR(Take(*result));
  }
  return absl::OkStatus();
}

absl::Status ShardFile::Take(const IoResult& result) {
  Piece& piece = pieces_[result.id];
  piece.in_flight = false;
  const bool again = result.result == -EINTR || result.result == -EAGAIN;
  // Some file systems take the flag and then refuse to write.
  if (!again && !(result.result == -EINVAL && StopBeingDirect())) {
    if (result.result <= 0)
      return IoError(path_, "write", result.result == 0 ? EIO : static_cast<int>(-result.result));
    piece.done += direct_ ? result.result / kBlock * kBlock : result.result;
    if (piece.done >= piece.filled) {
      // Only a hint: what it cannot do is done by fsync.
      if (!direct_) sync_file_range(file_.get(), piece.begin, piece.filled, SYNC_FILE_RANGE_WRITE);
      return absl::OkStatus();
    }
  }
  Submit(result.id);
  return absl::OkStatus();
}

bool ShardFile::StopBeingDirect() {
  if (!std::exchange(direct_, false)) return false;
  return fcntl(file_.get(), F_SETFL, 0) == 0;
}

absl::StatusOr<CheckpointFile> ShardFile::Finish() {
  if (filled_ != bytes_)
    return absl::InternalError(StrCat(path_.string(), ": ", bytes_ - filled_, " bytes were not given"));
  if (pieces_[current_].filled > 0) Submit(current_);
  for (size_t i = 0; i < pieces_.size(); ++i) FTUNE_RETURN_IF_ERROR(Settle(i));
  if (ftruncate(file_.get(), bytes_) != 0) return IoError(path_, "write", errno);
  if (fsync(file_.get()) != 0) return IoError(path_, "flush", errno);
  return CheckpointFile{path_.filename().string(), bytes_, hash_.Digest64()};
}

}  // namespace ftune
