#include "cmd/plan/dry_save.h"

#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "cmd/run_options.h"
#include "engine/checkpoint/rank_shards.h"
#include "engine/format/model_tensors.h"
#include "engine/shard/model_shards.h"

namespace ftune {
namespace {

int64_t BytesOf(const std::vector<OutputTensor>& tensors) {
  int64_t bytes = 0;
  for (const OutputTensor& tensor : tensors) {
    bytes += BytesFor(tensor.dtype, std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1},
                                                    std::multiplies<>()));
  }
  return bytes;
}

}  // namespace

absl::StatusOr<DrySave> SaveDry(const Recipe& recipe, Backend& backend, LoadedModel& model,
                                const Optimizer& optimizer) {
  std::unique_ptr<ModelShards> whole;
  if (!model.shards) whole = ModelShards::Single(backend, Stream(), *model.model);
  FTUNE_ASSIGN_OR_RETURN(RankShards own,
                         RankShards::Create(*model.model, whole ? *whole : *model.shards, optimizer));
  DrySave save;
  for (const RankFile& file : own.files()) save.bytes.checkpoint += file.layout.bytes;
  save.bytes.result = BytesOf(model.lora ? AdapterTensors(backend, Stream(), *model.model, *model.targets)
                                         : ModelTensors(backend, Stream(), *model.model,
                                                        ToDType(*recipe.precision.weights), nullptr));
  if (const StateDisk* disk = optimizer.disk()) save.bytes.states = disk->file_bytes();
  if (recipe.checkpoint.async) FTUNE_RETURN_IF_ERROR(own.TakeSnapshot(backend, Stream(), save.snapshot));
  return save;
}

}  // namespace ftune
