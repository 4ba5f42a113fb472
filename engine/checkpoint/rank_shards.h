// A rank's files of a checkpoint: which tensors are where in them, and their bytes.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/shard_file.h"
#include "engine/checkpoint/shard_sink.h"
#include "engine/checkpoint/state_slice.h"

namespace ftune {

struct RankFile {
  std::string name;  // "values-00003.safetensors"
  std::vector<StateSlice> slices;
  ShardLayout layout;            // its tensors are the slices' regions
  std::vector<int64_t> offsets;  // of the slices, in the file

  int64_t data_bytes() const { return layout.bytes - static_cast<int64_t>(layout.header.size()); }
};

class RankShards {
 public:
  // All outlive it. The layout is fixed; the bytes are those of the moment when they are asked for.
  static absl::StatusOr<RankShards> Create(const Model& model, ModelShards& shards,
                                           const Optimizer& optimizer);

  const std::vector<RankFile>& files() const { return files_; }  // none of a rank that has nothing to write
  int64_t data_bytes() const;

  // The bytes of all files behind their headers, one file after the other, in `snapshot`, which is made where
  // it is not defined yet; without bytes it stays so. On a backend that does not compute it is only made.
  absl::Status TakeSnapshot(Backend& backend, Stream stream, Tensor& snapshot);
  // Writes the files; `snapshot` is what TakeSnapshot gave, or empty: as things are now.
  absl::StatusOr<std::vector<CheckpointFile>> Write(ShardSink& sink, std::span<const std::byte> snapshot);
  // Enters the files' slices into a manifest whose files from `first` on are those that Write gave.
  void Enter(size_t first, Manifest& manifest) const;

 private:
  RankShards(const ModelShards& shards, const Optimizer& optimizer)
      : shards_(&shards), optimizer_(&optimizer) {}
  absl::Status AddFile(const std::string& name, std::vector<StateSlice> slices);
  // Until the next call.
  absl::StatusOr<std::span<const std::byte>> BytesOf(const StateSlice& slice);
  void Forget();

  const ModelShards* shards_;
  const Optimizer* optimizer_;
  std::vector<RankFile> files_;
  const Parameter* kept_of_ = nullptr;  // whose state is in kept_
  std::vector<NamedTensor> kept_;
};

}  // namespace ftune
