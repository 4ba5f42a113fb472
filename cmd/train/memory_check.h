// Whether a run's ranks have room on this host, before anything of the model is loaded.
#pragma once

#include "absl/status/status.h"
#include "cmd/recipe/load.h"
#include "cmd/report/progress.h"
#include "cmd/run_options.h"
#include "cmd/train/train_options.h"

namespace ftune {

// For ranks that are all on this host. An error that names changes with which the recipe fits, where it needs
// more than there is whatever the data is; with TrainOptions::force that is only said. What full packs of
// texts would need, or what others use at the moment, is only warned of. A recipe that cannot be planned
// passes: what is wrong with it is said when it is.
absl::Status CheckFitsHost(const TrainOptions& options, const LoadedRecipe& loaded, const ModelPlan& model,
                           Progress& progress);

}  // namespace ftune
