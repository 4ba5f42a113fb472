// What must hold before a model is trained.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "cmd/recipe/load.h"
#include "cmd/run_folder.h"
#include "cmd/run_options.h"
#include "data/loader/data_plan.h"
#include "engine/model/model.h"

namespace ftune {

// What an earlier run left here is removed when the new one starts: not what that one is made from.
absl::Status CheckKeepsSources(const RunPaths& paths, const ModelPlan& plan);

// Data in a pipe can be read once, by one rank.
absl::Status CheckRanksCanRead(const LoadedRecipe& loaded);
// The same for whoever reads it several times over: `readers` ("3 ranks"), and what else can be done
// (`hint`).
absl::Status CheckNoPipes(const LoadedRecipe& loaded, const std::string& readers, const std::string& hint);

// The ranks of parallel.tensor and parallel.pipeline must be able to share the model.
absl::Status CheckModelSplits(const Recipe& recipe, const ModelPlan& plan);

// Every rank of parallel.data must get a sample in some step.
absl::Status CheckAllRanksTrain(const LoadedRecipe& loaded, const DataPlan& plan);

// Something must train, on one rank or another, and each pattern of train.freeze must mean something. Called
// by all ranks.
absl::Status CheckTrainable(const LoadedRecipe& loaded, const Model& model, Communicator& world);

// Where two ranks hold the same trained weight, nothing may make their copies differ.
absl::Status CheckTiedStaysEqual(const LoadedRecipe& loaded, const Model& model);

// The rows of added tokens mean nothing until they are learned.
absl::Status CheckAddedTokensTrain(const LoadedRecipe& loaded, Model& model);

}  // namespace ftune
