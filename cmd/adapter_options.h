// The adapter section of a recipe as the engine's options, and a recipe that goes on from an adapter.
#pragma once

#include <filesystem>

#include "absl/status/status.h"
#include "cmd/recipe/load.h"
#include "engine/adapter/lora_options.h"
#include "engine/format/peft.h"
#include "engine/model/config.h"

namespace ftune {

// Of a resolved section.
LoraOptions ToLoraOptions(const AdapterSection& adapter);

// Fills the recipe's adapter section with what the adapter in `folder` is, where the recipe does not say; an
// error where it says something else (but for dropout, which belongs to training). → the adapter's options,
// with the recipe's dropout.
absl::StatusOr<LoraOptions> ContinueAdapter(LoadedRecipe& loaded, const std::filesystem::path& folder,
                                            const ModelConfig& config);

}  // namespace ftune
