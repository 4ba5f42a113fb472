#include "engine/checkpoint/shared_reader.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "engine/checkpoint/state_slice.h"
#include "parallel/comm/gather_text.h"

namespace ftune {
namespace {

struct Request {
  int64_t file = 0, offset = 0, count = 0;
};
constexpr int64_t kNumbers = sizeof(Request) / sizeof(int64_t);

Buffer NumbersOf(void* data, int64_t count) {
  return {static_cast<std::byte*>(data), count, DType::kI64, {}};
}
Buffer BytesOf(void* data, int64_t count) { return {static_cast<std::byte*>(data), count, DType::kU8, {}}; }

// Notes what is read of files that are not here.
class NotedBytes final : public CheckpointBytes {
 public:
  explicit NotedBytes(std::vector<Request>& requests) : requests_(requests) {}
  absl::StatusOr<const std::byte*> Read(size_t file, int64_t offset, int64_t count) override {
    requests_.push_back({static_cast<int64_t>(file), offset, count});
    nothing_.resize(std::max(nothing_.size(), static_cast<size_t>(count)));
    return nothing_.data();
  }

 private:
  std::vector<Request>& requests_;
  std::vector<std::byte> nothing_;
};

// What was asked for, in that order.
class GivenBytes final : public CheckpointBytes {
 public:
  GivenBytes(std::vector<Request> requests, std::vector<std::byte> bytes)
      : requests_(std::move(requests)), bytes_(std::move(bytes)) {}
  absl::StatusOr<const std::byte*> Read(size_t file, int64_t offset, int64_t count) override {
    if (next_ == requests_.size() || requests_[next_].file != static_cast<int64_t>(file) ||
        requests_[next_].offset != offset || requests_[next_].count != count) {
      return absl::InternalError("checkpoint: another part is read than the first rank was asked for");
    }
    ++next_;
    return bytes_.data() + std::exchange(at_, at_ + count);
  }

 private:
  std::vector<Request> requests_;
  std::vector<std::byte> bytes_;
  size_t next_ = 0;
  int64_t at_ = 0;
};

// On the first rank: what another one asks for.
absl::Status Serve(Communicator& world, int rank, const std::filesystem::path& folder,
                   const Manifest& manifest) {
  int64_t count = 0;
  FTUNE_RETURN_IF_ERROR(world.Run(Call::Receive(NumbersOf(&count, 1), rank)));
  std::vector<Request> requests(static_cast<size_t>(count));
  FTUNE_RETURN_IF_ERROR(world.Run(Call::Receive(NumbersOf(requests.data(), kNumbers * count), rank)));
  const std::unique_ptr<CheckpointBytes> files = MapCheckpointFiles(folder, manifest);
  for (const Request& request : requests) {
    FTUNE_ASSIGN_OR_RETURN(const std::byte* bytes,
                           files->Read(static_cast<size_t>(request.file), request.offset, request.count));
    FTUNE_RETURN_IF_ERROR(world.Run(Call::Send(BytesOf(const_cast<std::byte*>(bytes), request.count), rank)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CheckpointBytes>> AskFirst(Communicator& world,
                                                          std::vector<Request> requests) {
  int64_t count = std::ssize(requests), total = 0;
  FTUNE_RETURN_IF_ERROR(world.Run(Call::Send(NumbersOf(&count, 1), 0)));
  FTUNE_RETURN_IF_ERROR(world.Run(Call::Send(NumbersOf(requests.data(), kNumbers * count), 0)));
  for (const Request& request : requests) total += request.count;
  std::vector<std::byte> bytes(static_cast<size_t>(total));
  int64_t at = 0;
  for (const Request& request : requests) {
    FTUNE_RETURN_IF_ERROR(world.Run(Call::Receive(BytesOf(bytes.data() + at, request.count), 0)));
    at += request.count;
  }
  return std::make_unique<GivenBytes>(std::move(requests), std::move(bytes));
}

// What LoadCheckpoint reads, in its order.
absl::StatusOr<std::vector<Request>> NeedsOf(const Manifest& manifest, const Model& model,
                                             const ModelShards& shards, const Optimizer& optimizer) {
  std::vector<Request> requests;
  CheckpointReader reader(manifest, std::make_unique<NotedBytes>(requests));
  std::vector<std::byte> out;
  for (const StateSlice& slice : SlicesToRead(model, shards, optimizer)) {
    const CheckpointTensor* tensor = manifest.Find(slice.parameter->name, slice.state);
    if (tensor == nullptr && slice.state == kOwedName) continue;
    // LoadCheckpoint says what is wrong.
    if (tensor == nullptr || tensor->dtype != slice.dtype || tensor->shape != slice.shape) break;
    for (const Region& region : slice.regions) {
      out.resize(static_cast<size_t>(BytesFor(slice.dtype, region.elements())));
      FTUNE_RETURN_IF_ERROR(reader.Read(*tensor, region, out.data()));
    }
  }
  return requests;
}

}  // namespace

absl::StatusOr<CheckpointReader> OpenForAllRanks(Communicator& world, const std::filesystem::path& folder,
                                                 const Model& model, const ModelShards& shards,
                                                 const Optimizer& optimizer) {
  if (world.size() == 1) return CheckpointReader::Open(folder);
  absl::StatusOr<Manifest> own = InspectCheckpoint(folder);
  absl::StatusOr<std::string> text(std::string{});
  if (world.rank() == 0) text = own.ok() ? absl::StatusOr<std::string>(WriteManifest(*own)) : own.status();
  FTUNE_ASSIGN_OR_RETURN(const std::string manifest_text, TextOfFirst(world, text));
  // A folder of the same name on another disk is not the same.
  const bool sees = own.ok() && WriteManifest(*own) == manifest_text;
  std::vector<int64_t> seen(world.size());
  int64_t one = sees ? 1 : 0;
  FTUNE_RETURN_IF_ERROR(world.Run(Call::AllGather(
      NumbersOf(&one, 1), NumbersOf(seen.data(), std::ssize(seen)), std::vector<int64_t>(seen.size(), 1))));
  if (world.rank() == 0) {
    for (int rank = 1; rank < world.size(); ++rank) {
      if (seen[rank] == 0) FTUNE_RETURN_IF_ERROR(Serve(world, rank, folder, *own));
    }
  }
  if (sees) return CheckpointReader(*own, MapCheckpointFiles(folder, *own));
  FTUNE_ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(manifest_text, folder));
  FTUNE_ASSIGN_OR_RETURN(std::vector<Request> requests, NeedsOf(manifest, model, shards, optimizer));
  FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointBytes> bytes, AskFirst(world, std::move(requests)));
  return CheckpointReader(std::move(manifest), std::move(bytes));
}

}  // namespace ftune
