// Hub ids in the place of paths: what a command line or a recipe names, as paths here.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/hub/hub_reporter.h"
#include "cmd/hub/dataset_files.h"
#include "cmd/hub/model_files.h"
#include "cmd/recipe/load.h"

namespace ftune {

struct ResolvedModel {
  std::filesystem::path path;  // a folder or a .gguf file here, or what was given where that is no hub id
  std::string commit;          // of a hub id; else empty
};

// What is on this disk is taken as it is. Else "org/name", or "org/name/file.gguf", is a model of the hub,
// from the cache or downloaded into it. Anything else is given back: opening it says that it is not there.
absl::StatusOr<ResolvedModel> ResolveModelPath(const std::string& path,
                                               const std::optional<std::string>& revision, ModelParts parts,
                                               const HubReporter& reporter);

struct ResolvedDataset {
  std::vector<std::string> files;  // empty where `path` is no hub id
  std::string commit;
};

enum class HubAccess { kDownloads, kCacheOnly };

// The same of a dataset. `choice` says which of its files; its id is filled in.
absl::StatusOr<ResolvedDataset> ResolveDataset(const std::string& path,
                                               const std::optional<std::string>& revision,
                                               DatasetChoice choice, const HubReporter& reporter,
                                               HubAccess access = HubAccess::kDownloads);

// Fills in ModelSection::here and DataSource::files, and the commits as revisions, so that the recipe that a
// run keeps names the very same content. Keys that only hub ids have (revision, name, split) are an error on
// others.
absl::Status ResolveModelOf(LoadedRecipe& loaded, const HubReporter& reporter,
                            ModelParts parts = ModelParts::kAll);
absl::Status ResolveDatasetsOf(LoadedRecipe& loaded, const HubReporter& reporter,
                               HubAccess access = HubAccess::kDownloads);

}  // namespace ftune
