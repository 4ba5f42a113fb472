#include "engine/checkpoint/shard_sink.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ftune {
namespace {

constexpr int64_t kSentPiece = int64_t{8} << 20;

class FolderSink final : public ShardSink {
 public:
  explicit FolderSink(std::filesystem::path folder) : folder_(std::move(folder)) {}

  absl::Status Begin(const std::string& name, int64_t bytes) override {
    file_.reset();
    FTUNE_ASSIGN_OR_RETURN(ShardFile file, ShardFile::Create(folder_ / name, bytes));
    file_.emplace(std::move(file));
    return absl::OkStatus();
  }
  absl::Status Append(std::span<const std::byte> bytes) override { return file_->Append(bytes); }
  absl::StatusOr<CheckpointFile> Finish() override {
    absl::StatusOr<CheckpointFile> finished = file_->Finish();
    file_.reset();
    return finished;
  }

 private:
  std::filesystem::path folder_;
  std::optional<ShardFile> file_;
};

// What announces a file: of a name without bytes there is none.
using Announcement = std::array<int64_t, 2>;  // bytes of the name, bytes of the file

Buffer BytesOf(void* data, int64_t count) { return {static_cast<std::byte*>(data), count, DType::kU8, {}}; }
Buffer NumbersOf(Announcement& numbers) {
  return {reinterpret_cast<std::byte*>(numbers.data()), std::ssize(numbers), DType::kI64, {}};
}

}  // namespace

std::unique_ptr<ShardSink> MakeFolderSink(std::filesystem::path folder) {
  return std::make_unique<FolderSink>(std::move(folder));
}

absl::Status RemoteSink::Begin(const std::string& name, int64_t bytes) {
  file_ = {.name = name, .bytes = bytes};
  left_ = bytes;
  hash_ = Xxh3Stream();
  Announcement announcement = {std::ssize(name), bytes};
  FTUNE_RETURN_IF_ERROR(group_.Run(Call::Send(NumbersOf(announcement), to_)));
  return group_.Run(Call::Send(BytesOf(file_.name.data(), std::ssize(name)), to_));
}

absl::Status RemoteSink::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const int64_t count = std::min(std::ssize(bytes), kSentPiece);
    Announcement announcement = {count, 0};
    FTUNE_RETURN_IF_ERROR(group_.Run(Call::Send(NumbersOf(announcement), to_)));
    hash_.Add(std::string_view(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(count)));
    FTUNE_RETURN_IF_ERROR(group_.Run(Call::Send(BytesOf(const_cast<std::byte*>(bytes.data()), count), to_)));
    left_ -= count;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointFile> RemoteSink::Finish() {
  if (left_ != 0) return absl::InternalError("a checkpoint's file is not as long as announced");
  file_.xxh3 = hash_.Digest64();
  return file_;
}

absl::Status RemoteSink::End() {
  Announcement none = {0, 0};
  return group_.Run(Call::Send(NumbersOf(none), to_));
}

absl::Status ReceiveShards(Communicator& group, int from, ShardSink& sink) {
  absl::Status status;
  std::vector<std::byte> piece;
  while (true) {
    Announcement announcement{};
    FTUNE_RETURN_IF_ERROR(group.Run(Call::Receive(NumbersOf(announcement), from)));
    if (announcement[0] == 0) return status;
    std::string name(static_cast<size_t>(announcement[0]), '\0');
    FTUNE_RETURN_IF_ERROR(group.Run(Call::Receive(BytesOf(name.data(), std::ssize(name)), from)));
    if (status.ok()) status = sink.Begin(name, announcement[1]);
    for (int64_t left = announcement[1]; left > 0;) {
      Announcement next{};
      FTUNE_RETURN_IF_ERROR(group.Run(Call::Receive(NumbersOf(next), from)));
      piece.resize(static_cast<size_t>(next[0]));
      FTUNE_RETURN_IF_ERROR(group.Run(Call::Receive(BytesOf(piece.data(), next[0]), from)));
      if (status.ok()) status = sink.Append(piece);
      left -= next[0];
    }
    if (status.ok()) status = sink.Finish().status();
  }
}

}  // namespace ftune
