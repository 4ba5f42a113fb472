// A model that is ready to use: opened, its weights in memory, with an adapter if there is one.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/adapter/lora.h"
#include "engine/format/hf_model.h"
#include "engine/model/model.h"

namespace ftune {

struct LoadedModel {
  ModelFiles files;
  std::unique_ptr<Model> model;
  std::optional<LoraOptions> lora;
  std::optional<LoraTargets> targets;

  double lora_scale() const { return lora ? lora->alpha / static_cast<double>(lora->rank) : 0.0; }
};

// Positions scaled to a longer context than the model was made for.
struct ModelContext {
  RopeConfig rope;
  int64_t max_position = 0;
};

struct LoadModelOptions {
  int64_t max_length = 0;  // positions that can be used; 0: all that the model was made for
  // Training: which parameters, and how they and the frozen ones are stored. By default nothing trains and
  // everything stays as it is in the file.
  std::function<bool(const std::string& name)> trainable;
  DType trainable_dtype = DType::kF32;
  std::optional<DType> frozen_dtype;
  std::optional<ModelContext> context;  // instead of the model's
  // A new adapter (its A and B are drawn from `seed`), or one from a PEFT folder.
  std::optional<LoraOptions> new_lora;
  std::optional<std::filesystem::path> lora_folder;
  uint64_t seed = 42;
};

absl::StatusOr<LoadedModel> LoadModel(Backend& backend, Stream stream, const std::filesystem::path& path,
                                      const LoadModelOptions& options);

}  // namespace ftune
