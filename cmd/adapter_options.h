// The adapter section of a recipe as the engine's options, and a recipe that goes on from an adapter.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "cmd/recipe/load.h"
#include "engine/adapter/lora_options.h"
#include "engine/model/config.h"

namespace ftune {

// What the base is quantised to; nothing if it is not.
std::optional<DType> ToDType(Quantization quantize);

// Of a resolved section.
LoraOptions ToLoraOptions(const AdapterSection& adapter);

// Fills the recipe's adapter section with what the adapter to go on from is, where the recipe does not say;
// an error where it says something else (but for dropout, which belongs to training). `file` says so of the
// adapter. → its options, with the recipe's dropout.
absl::StatusOr<LoraOptions> ContinueAdapter(LoadedRecipe& loaded, LoraOptions options,
                                            const std::string& file, const ModelConfig& config);

}  // namespace ftune
