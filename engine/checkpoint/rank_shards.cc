#include "engine/checkpoint/rank_shards.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

// The name of a slice's region in its file.
std::string NameInFile(const StateSlice& slice, const Region& region) {
  std::string name = slice.parameter->name;
  if (!slice.state.empty()) StrAppend(name, "/", slice.state);
  if (region != WholeOf(slice.shape)) StrAppend(name, region.Describe());
  return name;
}

}  // namespace

absl::StatusOr<RankShards> RankShards::Create(const Model& model, ModelShards& shards,
                                              const Optimizer& optimizer) {
  RankShards own(shards, optimizer);
  std::vector<StateSlice> values, states;
  for (StateSlice& slice : SlicesToWrite(model, shards, optimizer)) {
    (slice.state.empty() ? values : states).push_back(std::move(slice));
  }
  const int rank = shards.mesh().rank();
  FTUNE_RETURN_IF_ERROR(own.AddFile(absl::StrFormat("values-%05d.safetensors", rank), std::move(values)));
  FTUNE_RETURN_IF_ERROR(own.AddFile(absl::StrFormat("optimizer-%05d.safetensors", rank), std::move(states)));
  return own;
}

absl::Status RankShards::AddFile(const std::string& name, std::vector<StateSlice> slices) {
  if (slices.empty()) return absl::OkStatus();
  // The largest elements first, so that each tensor is aligned.
  std::stable_sort(slices.begin(), slices.end(), [](const StateSlice& a, const StateSlice& b) {
    return BytesFor(a.dtype, 1) > BytesFor(b.dtype, 1);
  });
  std::vector<SafetensorsSpec> tensors;
  for (const StateSlice& slice : slices) {
    for (const Region& region : slice.regions) {
      tensors.push_back({NameInFile(slice, region), slice.dtype, region.size});
    }
  }
  RankFile file{.name = name, .slices = std::move(slices)};
  FTUNE_ASSIGN_OR_RETURN(file.layout, LayOutShardFile(name, tensors));
  size_t tensor = 0;
  for (const StateSlice& slice : file.slices) {
    file.offsets.push_back(file.layout.offsets[tensor]);
    tensor += slice.regions.size();
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

int64_t RankShards::data_bytes() const {
  int64_t bytes = 0;
  for (const RankFile& file : files_) bytes += file.data_bytes();
  return bytes;
}

absl::StatusOr<std::span<const std::byte>> RankShards::BytesOf(const StateSlice& slice) {
  Tensor whole;
  if (slice.kept_as.empty()) {
    whole = OwnedValues(*slice.store, *slice.parameter);
  } else if (slice.kept_as == kOwedName) {
    whole = shards_->compressed()->owed(slice.block).values;
  } else {
    // What is on disk is read once for all slices of a parameter that follow each other.
    if (kept_of_ != slice.parameter) {
      FTUNE_ASSIGN_OR_RETURN(kept_, optimizer_->StateOf(*slice.parameter));
      kept_of_ = slice.parameter;
    }
    for (const NamedTensor& kept : kept_) {
      if (kept.name == slice.kept_as) whole = kept.tensor;
    }
  }
  const Tensor part = whole.Cols(slice.values.begin, slice.values.count);
  return std::span<const std::byte>(part.bytes(), static_cast<size_t>(slice.bytes()));
}

void RankShards::Forget() {
  kept_of_ = nullptr;
  kept_.clear();
}

absl::Status RankShards::TakeSnapshot(Backend& backend, Stream stream, Tensor& snapshot) {
  const int64_t bytes = data_bytes();
  if (bytes == 0) return absl::OkStatus();
  if (!snapshot.defined()) snapshot = backend.Allocate(DType::kU8, 1, bytes, Category::kBuffers);
  backend.Synchronize(stream);
  int64_t begin = 0;
  for (const RankFile& file : files_) {
    for (size_t i = 0; i < file.slices.size(); ++i) {
      FTUNE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, BytesOf(file.slices[i]));
      const int64_t at = begin + file.offsets[i] - static_cast<int64_t>(file.layout.header.size());
      if (backend.computes()) std::memcpy(snapshot.bytes() + at, bytes.data(), bytes.size());
    }
    begin += file.data_bytes();
  }
  Forget();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CheckpointFile>> RankShards::Write(ShardSink& sink,
                                                              std::span<const std::byte> snapshot) {
  std::vector<CheckpointFile> written;
  for (const RankFile& file : files_) {
    FTUNE_RETURN_IF_ERROR(sink.Begin(file.name, file.layout.bytes));
    FTUNE_RETURN_IF_ERROR(sink.Append(std::as_bytes(std::span(file.layout.header))));
    if (!snapshot.empty()) {
      const auto bytes = static_cast<size_t>(file.data_bytes());
      FTUNE_RETURN_IF_ERROR(sink.Append(snapshot.first(bytes)));
      snapshot = snapshot.subspan(bytes);
    } else {
      for (const StateSlice& slice : file.slices) {
        FTUNE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, BytesOf(slice));
        FTUNE_RETURN_IF_ERROR(sink.Append(bytes));
      }
    }
    Forget();
    FTUNE_ASSIGN_OR_RETURN(written.emplace_back(), sink.Finish());
  }
  return written;
}

void RankShards::Enter(size_t first, Manifest& manifest) const {
  for (size_t f = 0; f < files_.size(); ++f) {
    const RankFile& file = files_[f];
    size_t tensor = 0;
    for (const StateSlice& slice : file.slices) {
      CheckpointTensor& entry = slice.state.empty() ? manifest.values[slice.parameter->name]
                                                    : manifest.optimizer[slice.parameter->name][slice.state];
      entry.dtype = slice.dtype;
      entry.shape = slice.shape;
      for (const Region& region : slice.regions) {
        entry.slices.push_back({first + f, file.layout.offsets[tensor++], region});
      }
    }
  }
}

}  // namespace ftune
