// A model that is ready to use: opened, its weights in memory, with an adapter if there is one.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/adapter/lora.h"
#include "engine/format/added_tokens.h"
#include "engine/format/hf_model.h"
#include "engine/format/streamed_values.h"
#include "engine/model/model.h"
#include "engine/shard/model_shards.h"

namespace ftune {

struct LoadedModel {
  ModelFiles files;  // its config is that of `model`, which may differ from the file's
  std::unique_ptr<Model> model;
  std::unique_ptr<ModelShards> shards;       // what of it this rank has, with `ranks` of the options
  std::unique_ptr<StreamedValues> streamed;  // with `streamed` of the options
  // The adapter, if the model has one.
  std::optional<LoraOptions> lora;
  std::optional<LoraTargets> targets;
  std::optional<DType> quantize;  // what the decoder's frozen linear weights were quantised to
};

// The ranks that a model is loaded for. All call LoadModel alike.
struct LoadRanks {
  Mesh* mesh = nullptr;  // outlives the model
  ModelPart part;        // of the model that this rank has; empty: all of it
  ShardOptions sharding;
  OptimizerOptions optimizer;  // says where parameters can be cut
};

// Positions scaled to a longer context than the model was made for.
struct ModelContext {
  RopeConfig rope;
  int64_t max_position = 0;
};

struct LoadModelOptions {
  int64_t max_length = 0;  // positions that can be used; 0: all that the model was made for
  // Training: which parameters, and how they and the frozen ones are stored. By default nothing trains and
  // everything stays as it is in the file. With an adapter, that and its modules_to_save train, in f32.
  std::function<bool(const std::string& name)> trainable;
  DType trainable_dtype = DType::kF32;
  std::optional<DType> frozen_dtype;
  // QLoRA: the frozen weights of the decoder's linears are quantised to this type while they are loaded.
  std::optional<DType> quantize;
  std::optional<ModelContext> context;  // instead of the model's
  TensorAxis tensor;                    // each rank holds its slices; must be able to split the model
  std::optional<LoadRanks> ranks;       // none: this one has all

  std::optional<RowGrowth> growth;         // of embedding and head, for added tokens
  std::filesystem::path tokenizer_folder;  // as in ModelFiles; else the last adapter's, where it has one

  // PEFT folders. All but the last are merged into the base one after the other, in f32; the last stays an
  // adapter, or is given its form by `lora`.
  std::vector<std::filesystem::path> adapters;
  std::optional<LoraOptions> lora;  // without `adapters`, a new adapter: its values are drawn from `seed`
  uint64_t seed = 42;

  // Values that runs have trained, of the model or of its adapter, in the place of those that there are
  // otherwise (trained_values.h); later ones go before earlier ones.
  std::vector<std::shared_ptr<const WeightSource>> trained;
  // Nothing is loaded now, and one block at a time when it is used; with one adapter at most, one rank, and
  // values for all that is there.
  bool streamed = false;
  // A run that computes nothing: the model's config.json is enough (OpenModelShapes).
  bool shapes_only = false;
  // The adapters are to be merged: where they change the embedding or a tied head, the two are kept apart.
  bool for_merging = false;
};

absl::StatusOr<LoadedModel> LoadModel(Backend& backend, Stream stream, const std::filesystem::path& path,
                                      const LoadModelOptions& options);

}  // namespace ftune
