#include "base/async_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/io_error.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr unsigned kDepth = 64;
constexpr int64_t kPieceBytes = int64_t{1} << 20;

bool Aligned(int64_t x) { return x % ScratchFile::kAlignment == 0; }

}  // namespace

absl::StatusOr<std::unique_ptr<AsyncFile>> AsyncFile::Create(const Options& options) {
  FTUNE_ASSIGN_OR_RETURN(ScratchFile file,
                         ScratchFile::Create(options.folder, options.bytes, options.content));
  return std::unique_ptr<AsyncFile>(new AsyncFile(options, std::move(file)));
}

AsyncFile::AsyncFile(const Options& options, ScratchFile file)
    : folder_(options.folder), content_(options.content), file_(std::move(file)), in_flight_(kDepth) {
  if (options.use_uring) queue_ = MakeUringQueue(file_.fd(), file_.direct(), kDepth, uring_error_);
  uses_uring_ = queue_ != nullptr;
  if (!queue_) queue_ = MakeThreadQueue(file_.fd());
  for (size_t id = kDepth; id-- > 0;) free_ids_.push_back(id);
}

AsyncFile::~AsyncFile() {
  waiting_.clear();
  while (free_ids_.size() < kDepth) {
    const std::optional<IoResult> result = queue_->Take(true);
    if (!result) return;
    free_ids_.push_back(result->id);
  }
}

AsyncFile::Ticket AsyncFile::Read(std::span<std::byte> to, int64_t offset) {
  return Start(false, to.data(), static_cast<int64_t>(to.size()), offset);
}

AsyncFile::Ticket AsyncFile::Write(std::span<const std::byte> from, int64_t offset) {
  return Start(true, const_cast<std::byte*>(from.data()), static_cast<int64_t>(from.size()), offset);
}

AsyncFile::Ticket AsyncFile::Start(bool write, std::byte* data, int64_t bytes, int64_t offset) {
  const Ticket ticket = next_ticket_++;
  Request& request = requests_[ticket];
  request.write = write;
  if (!Aligned(reinterpret_cast<intptr_t>(data)) || !Aligned(bytes) || !Aligned(offset)) {
    Fail(request, {ticket, data, bytes, offset}, EINVAL);
    return ticket;
  }
  for (int64_t begin = 0; begin < bytes; begin += kPieceBytes) {
    waiting_.push_back({ticket, data + begin, std::min(kPieceBytes, bytes - begin), offset + begin});
    ++request.unfinished;
  }
  Submit();
  return ticket;
}

void AsyncFile::Submit() {
  while (!waiting_.empty() && !free_ids_.empty()) {
    const size_t id = free_ids_.back();
    free_ids_.pop_back();
    const Piece piece = in_flight_[id] = waiting_.front();
    waiting_.pop_front();
    queue_->Submit({.id = id,
                    .write = requests_.at(piece.ticket).write,
                    .data = piece.data,
                    .bytes = static_cast<uint32_t>(piece.bytes),
                    .offset = piece.offset});
  }
}

void AsyncFile::Finish(const IoResult& result) {
  const Piece piece = in_flight_[result.id];
  free_ids_.push_back(result.id);
  Request& request = requests_.at(piece.ticket);
  int64_t done = result.result;
  const bool again = done == -EINTR || done == -EAGAIN;
  if (again) done = 0;
  if (done == piece.bytes) {
    // What went through the page cache need not stay there: it is read again a step later.
    if (!file_.direct()) posix_fadvise(file_.fd(), piece.offset, piece.bytes, POSIX_FADV_DONTNEED);
    --request.unfinished;
    return;
  }
  if (done > 0 && file_.direct()) done -= done % ScratchFile::kAlignment;
  if (done < 0 || (done == 0 && !again)) {
    // Nothing, or less than a block, without an error: the end of a file that someone has cut.
    Fail(request, piece, done < 0 ? static_cast<int>(-done) : EIO);
    --request.unfinished;
    return;
  }
  waiting_.push_front({piece.ticket, piece.data + done, piece.bytes - done, piece.offset + done});
}

void AsyncFile::TakeResults(bool wait) {
  std::optional<IoResult> result = queue_->Take(wait);
  if (wait && !result) return FailAll();
  for (; result; result = queue_->Take(false)) Finish(*result);
  Submit();
}

bool AsyncFile::Done(Ticket ticket) {
  const Request& request = requests_.at(ticket);
  if (request.unfinished > 0) TakeResults(false);
  return request.unfinished == 0;
}

absl::Status AsyncFile::Wait(Ticket ticket) {
  const Request& request = requests_.at(ticket);
  while (request.unfinished > 0) TakeResults(true);
  absl::Status status = request.status;
  requests_.erase(ticket);
  return status;
}

void AsyncFile::Fail(Request& request, const Piece& piece, int error) const {
  if (!request.status.ok()) return;
  request.status = IoError(
      folder_,
      StrCat(request.write ? "write " : "read ", piece.bytes, " bytes at ", piece.offset, " of ", content_),
      error);
}

void AsyncFile::FailAll() {
  waiting_.clear();
  for (auto& [ticket, request] : requests_) {
    if (request.unfinished == 0) continue;
    Fail(request, {.ticket = ticket}, EIO);
    request.unfinished = 0;
  }
}

std::string AsyncFile::method() const {
  std::string queue = uses_uring_ ? "io_uring" : "a helper thread";
  if (uring_error_ != 0) {
    StrAppend(queue, ", as io_uring is not available: ", std::generic_category().message(uring_error_));
  }
  return StrCat(file_.direct() ? "direct" : "through the page cache", ", by ", queue);
}

}  // namespace ftune
