// Whether a checkpoint has a value for each parameter that its run trains.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/manifest.h"
#include "engine/format/loaded_model.h"

namespace ftune {

// The parameters that the run of a model with these options trains, as `model` was loaded with them.
std::vector<std::string> TrainedNames(const LoadedModel& model, const LoadModelOptions& options);

// An error that names the first of `trained` that the manifest in `file` lacks.
absl::Status CheckHasValues(const Manifest& manifest, const std::vector<std::string>& trained,
                            const std::string& file);

// What a run's checkpoints have values for, by the model that they began with (Manifest::model).
using RunNames = std::map<std::string, std::set<std::string>>;
// They need not be whole: one whose manifest cannot be read says nothing.
RunNames NamesInRun(const std::vector<CheckpointEntry>& checkpoints);

// What a checkpoint shows of itself, and the others of its run of theirs: what the optimizer keeps is for
// parameters that are trained, a model's configuration that is here says which there are, and all
// checkpoints of a run have the same.
absl::Status CheckComplete(const Manifest& manifest, const RunNames& run, const std::string& file);

}  // namespace ftune
