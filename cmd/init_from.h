// model.init_from: the weights, or the adapter, that a run begins with in the place of model.path's own.
#pragma once

#include "absl/status/status.h"
#include "base/hub/hub_reporter.h"
#include "cmd/recipe/load.h"
#include "cmd/run_options.h"

namespace ftune {

// model.init_from, which the recipe has, may be a model's folder, an adapter's, a checkpoint's, or a run's.
// A run stands for what it has come to: for the checkpoint of its result where it has ended, or the result
// itself where that is in no checkpoint; else for its newest checkpoint. The recipe then names that. `plan`
// is that of model.path alone.
absl::Status ApplyInitFrom(LoadedRecipe& loaded, ModelPlan& plan, const HubReporter& reporter);

// The same of a run that goes on from a checkpoint which has all of it.
absl::Status ApplyInitInCheckpoint(LoadedRecipe& loaded, ModelPlan& plan, const InitInCheckpoint& init);

}  // namespace ftune
