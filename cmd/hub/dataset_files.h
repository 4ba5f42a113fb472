// Which files of a dataset's repository make up a split of a subset, by the conventions of the hub: what the
// `configs` in its README.md say, else what its files are called.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ftune {

struct DatasetChoice {
  std::string id;                     // for errors
  std::optional<std::string> subset;  // "name" in a recipe
  std::optional<std::string> split;
  // Where no split is named: "train" may be meant (training data), or only that of a dataset that has but
  // one.
  bool train_is_meant = true;
};

struct DatasetFiles {
  std::vector<std::string> files;  // sorted, at least one
  std::vector<std::string> notes;  // what a user should be told: files left out
};

// `readme`: the text of README.md, or empty. An error names the subsets or splits that there are.
absl::StatusOr<DatasetFiles> ChooseDatasetFiles(const std::vector<std::string>& paths,
                                                const std::string& readme, const DatasetChoice& choice);

}  // namespace ftune
