// The sizes of a batch: global = microbatch × accumulation × data-parallel ranks.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "cmd/recipe/load.h"

namespace ftune {

// Fills in those of train.global_batch_size, micro_batch_size and gradient_accumulation_steps that are auto.
// Sizes that are given and do not multiply out are an error; the default global batch is rounded up to what
// the others allow.
absl::Status ResolveBatch(LoadedRecipe& loaded, int64_t data_ranks);

}  // namespace ftune
