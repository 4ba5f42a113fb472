// A model for a run that computes nothing, which needs its config.json alone.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "engine/format/hf_model.h"

namespace ftune {

// What OpenModel gives where there are weights. Else, of a folder with a config.json or of a .json file that
// is one: tensors of the dtype that it names (f32 where it names none, as transformers has it), whose bytes
// have addresses but cannot be read.
absl::StatusOr<ModelFiles> OpenModelShapes(const std::filesystem::path& path);

}  // namespace ftune
