// What a run was made from, as inputs.json in its folder keeps it: a run that goes on needs the same.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cmd/train/same_files.h"

namespace ftune {

// Those of `inputs` that must be the same when the run goes on, or may have to be.
absl::Status WriteInputs(const std::vector<SharedInput>& inputs, const std::filesystem::path& path);

// An error that names the first of `inputs` that holds something else than the file says, wherever it is.
// Files of data that gave the same samples may differ, and those of evaluation where nothing depends on its
// losses. Fine where there is no such file.
absl::Status CheckInputs(const Recipe& recipe, const std::vector<SharedInput>& inputs,
                         const std::filesystem::path& path);

// The inputs that the file has; none where there is no such file.
absl::StatusOr<std::vector<SharedInput>> ReadInputs(const std::filesystem::path& path);
// The recipe's keys which name what `inputs` have: of those CheckInputs knows better than their text whether
// something has changed.
std::vector<std::string> KeysByContent(const std::vector<SharedInput>& inputs);

// An error where the model in `model`, or the checkpoint whose weights are put into it, is not the one that
// the run of this inputs.json began with, wherever each is. Fine where there is no such file.
absl::Status CheckModelInputs(const std::filesystem::path& model,
                              const std::optional<std::filesystem::path>& checkpoint,
                              const std::filesystem::path& path);

// One text for what a model's files hold, and one for what is learned from, for the manifests of
// checkpoints. Nothing is known beforehand of streamed data: then it is empty.
std::string FingerprintOfModel(const std::vector<SharedInput>& inputs);
std::string FingerprintOfData(const std::vector<SharedInput>& inputs);

}  // namespace ftune
