// A checkpoint as the model that it is: the base of its run, with what was trained, as the run's own result
// would be.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/hub/hub_reporter.h"
#include "base/scratch_folder.h"
#include "cmd/model_session.h"
#include "cmd/recipe/recipe.h"
#include "engine/checkpoint/checkpoint_folder.h"

namespace ftune {

struct CheckpointModel {
  std::optional<ScratchFolder> tokenizer_folder;  // which the session's files name
  ModelSession session;                           // streamed: one block at a time
  Recipe recipe;                                  // of the run, resolved
  // The checkpoint that has the weights of the adapter's base, if that is not a model as it is.
  std::optional<std::filesystem::path> base_checkpoint;
};

struct CheckpointModelOptions {
  std::string base;      // the base model, where it is not where the recipe says; may be empty
  bool merging = false;  // as LoadModelOptions::for_merging
};
absl::StatusOr<CheckpointModel> OpenCheckpointModel(const CheckpointEntry& checkpoint,
                                                    const CheckpointModelOptions& options,
                                                    const HubReporter& reporter);

}  // namespace ftune
