// What a plan says of a recipe's data, where that is here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cmd/command.h"
#include "cmd/plan/dry_batches.h"
#include "cmd/recipe/load.h"
#include "cmd/run_options.h"

namespace ftune {

struct DataFacts {
  std::string why_not;  // nothing is known, in one line; empty: all is
  // Of the first epoch.
  int64_t samples = 0, tokens = 0, trained_tokens = 0, packs = 0;
  double fill = 0.0;
  std::optional<TypicalPack> pack;  // of a rank's packs
  RunLength steps;                  // of nothing known, what the recipe says, or 0
  // How often the run is evaluated, and of how many microbatches of a rank each time.
  int64_t evaluations = 0, evaluation_microbatches = 0;
};

// As `ftune train` would prepare it, and left where that finds it. Nothing is downloaded, no pipe is read,
// and of files that are not prepared yet no more than a moment's work: then, and where the data or the
// tokenizer is missing or not as it must be, it is said why.
DataFacts LookAtData(const LoadedRecipe& loaded, const ModelPlan& model, const Invocation& invocation);

}  // namespace ftune
