// The base of an adapter, where it is not a model's files as they are but a model with the weights of a
// checkpoint: what a run with an adapter and model.init_from begins with.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cmd/recipe/recipe.h"
#include "engine/format/weight_source.h"

namespace ftune {

// The checkpoint of a model's weights that the adapter of `recipe`, a run's, is trained on: the one that
// model.init_from names, or where that is an adapter's checkpoint or run, the one of its own recipe. Nothing
// where the base is a model's files.
absl::StatusOr<std::optional<std::filesystem::path>> BaseCheckpointOf(const Recipe& recipe);

// The same of a run's adapter, by its folder: earlier versions named the model alone in adapter_config.json.
// Nothing where the run's recipe does not tell.
std::optional<std::filesystem::path> BaseCheckpointOfAdapter(const std::filesystem::path& adapter);
// Whether an adapter that names this as its base is for a checkpoint's weights; also where that is gone.
bool NamesCheckpoint(const std::filesystem::path& base);

// A checkpoint as the base of an adapter.
struct CheckpointBase {
  std::string model;  // model.path of its run: what the weights are put into
  std::optional<std::string> revision;
  std::vector<std::shared_ptr<const WeightSource>> trained;  // as in LoadModelOptions
};
// Its values must be what was written. `named_in`: the file that names it, for errors.
absl::StatusOr<CheckpointBase> OpenCheckpointBase(const std::filesystem::path& checkpoint,
                                                  const std::string& named_in);

}  // namespace ftune
