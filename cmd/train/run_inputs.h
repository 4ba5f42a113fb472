// What a run was made from, as inputs.json in its folder keeps it: a run that goes on needs the same.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cmd/train/same_files.h"

namespace ftune {

// Those of `inputs` whose keys may not change when the run goes on.
absl::Status WriteInputs(const std::vector<SharedInput>& inputs, const std::filesystem::path& path);

// An error that names the first of `inputs` that holds something else than the file says, wherever it is.
// Files of data that gave the same samples may differ. Fine where there is no such file.
absl::Status CheckInputs(const std::vector<SharedInput>& inputs, const std::filesystem::path& path);

// An error where the model in `model`, or the checkpoint whose weights are put into it, is not the one that
// the run of this inputs.json began with, wherever each is. Fine where there is no such file.
absl::Status CheckModelInputs(const std::filesystem::path& model,
                              const std::optional<std::filesystem::path>& checkpoint,
                              const std::filesystem::path& path);

// One text for what a model's files hold, for the manifests of checkpoints.
std::string FingerprintOfModel(const std::vector<SharedInput>& inputs);

}  // namespace ftune
