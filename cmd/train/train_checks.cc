#include "cmd/train/train_checks.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "cmd/train/pipeline_plan.h"
#include "data/file/pipe_bytes.h"
#include "engine/adapter/module_pattern.h"
#include "engine/format/hf_model.h"
#include "engine/model/modules.h"
#include "engine/model/tensor_split.h"

namespace ftune {

absl::Status CheckKeepsSources(const RunPaths& paths, const ModelPlan& plan) {
  std::vector<std::filesystem::path> sources = {plan.model_path, plan.tokenizer};
  sources.insert(sources.end(), plan.options.adapters.begin(), plan.options.adapters.end());
  if (plan.checkpoint) sources.push_back(plan.checkpoint->parent_path());
  for (const std::filesystem::path& source : sources) {
    for (const std::filesystem::path& removed : {paths.model(), paths.adapter(), paths.checkpoints()}) {
      std::error_code error;
      if (!Exists(removed) || !std::filesystem::equivalent(source, removed, error)) continue;
      return UsageError(
          {.file = source.string(),
           .key = "output_dir",
           .message = "the run is made from what is in its own output_dir, and would replace it",
           .hint = "choose another output_dir"});
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRanksCanRead(const LoadedRecipe& loaded) {
  const int ranks = ToMeshShape(loaded.recipe.parallel).ranks();
  if (ranks == 1) return absl::OkStatus();
  return CheckNoPipes(loaded, StrCat(ranks, " ranks"), "write the rows to a file, or train with one rank");
}

absl::Status CheckNoPipes(const LoadedRecipe& loaded, const std::string& readers, const std::string& hint) {
  const DataSection& data = loaded.recipe.data;
  for (const auto& [key, sources] :
       {std::pair("data.train", &data.train), std::pair("data.eval", &data.eval)}) {
    for (const DataSource& source : *sources) {
      if (!IsPipe(source.path)) continue;
      ErrorDetail detail = loaded.At(key);
      detail.found = StrCat("'", source.path, "', a pipe, for ", readers);
      detail.expected = "files, which can be read several times over";
      detail.hint = hint;
      return UsageError(std::move(detail));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckModelSplits(const Recipe& recipe, const ModelPlan& plan) {
  const ParallelSection& parallel = recipe.parallel;
  if (*parallel.tensor == 1 && *parallel.pipeline == 1) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const ModelFiles files, OpenModel(plan.model_path));
  FTUNE_RETURN_IF_ERROR(CheckTensorSplit(files.config, static_cast<int>(*parallel.tensor)));
  if (*parallel.pipeline == 1) return absl::OkStatus();
  return PlanPipeline(recipe, files.config, plan.options).status();
}

// The packs of a step go to one rank after another: in a step of few packs the last ranks get none.
absl::Status CheckAllRanksTrain(const LoadedRecipe& loaded, const DataPlan& plan) {
  const Recipe& recipe = loaded.recipe;
  const int64_t ranks = *recipe.parallel.data;
  int64_t most = 0;  // packs of a step
  for (const DataPlan::Epoch& epoch : plan.epochs()) {
    most = std::max(most, std::min(epoch.packs, *recipe.train.global_batch_size));
  }
  const int64_t micro = *recipe.train.micro_batch_size;
  const int64_t busy = (most + micro - 1) / micro;
  if (busy >= ranks) return absl::OkStatus();
  ErrorDetail detail = loaded.At("parallel.data");
  detail.message = "some ranks would never get a sample";
  detail.found = StrCat(ranks, " ranks for ", most, " packs a step, ", micro, " at a time");
  detail.expected = StrCat("at most ", busy, " ranks");
  detail.hint = "lower parallel.data, or give more data";
  return UsageError(std::move(detail));
}

absl::Status CheckTrainable(const LoadedRecipe& loaded, const Model& model, Communicator& world) {
  ErrorDetail detail = loaded.At("train.freeze");
  // Other ranks may have other stages: patterns are held against the names of all.
  const std::vector<ParameterShape> all = ModelParameters(model.config());
  for (const std::string& text : loaded.recipe.train.freeze) {
    FTUNE_ASSIGN_OR_RETURN(const ModulePattern pattern, ModulePattern::Compile(text));
    const bool used = std::any_of(all.begin(), all.end(),
                                  [&](const ParameterShape& p) { return pattern.MatchesPart(p.name); });
    if (used) continue;
    detail.found = StrCat("'", text, "', which matches no parameter");
    detail.expected = StrCat("a regular expression of names such as ", all[all.size() / 2].name);
    return UsageError(detail);
  }
  const std::vector<const Parameter*> own = model.parameters();
  const bool trains = std::any_of(own.begin(), own.end(), [](const Parameter* p) { return p->trainable; });
  FTUNE_ASSIGN_OR_RETURN(const int64_t any, world.AllReduce(int64_t{trains}, ReduceOp::kMax));
  if (any != 0) return absl::OkStatus();
  detail.message = "it freezes every parameter of the model";
  detail.hint = "leave some of them out of it";
  return UsageError(detail);
}

absl::Status CheckTiedStaysEqual(const LoadedRecipe& loaded, const Model& model) {
  const bool compressed = loaded.recipe.parallel.compression != CompressionName::kNone;
  if (!compressed || !model.tied_across()) return absl::OkStatus();
  const Parameter& tied = model.blocks().front()->store().parameters().front();
  if (!tied.trainable) return absl::OkStatus();
  ErrorDetail detail = loaded.At("parallel.compression");
  detail.message = StrCat("the first and the last stage both hold ", tied.name,
                          ", which would not stay equal: what compression rounds away differs between them");
  detail.found = "a trained head that is tied to the embedding, on another rank";
  detail.hint =
      "remove parallel.compression, freeze that weight, or choose zb-v, whose first and last stage share a "
      "rank";
  return UsageError(detail);
}

absl::Status CheckAddedTokensTrain(const LoadedRecipe& loaded, Model& model) {
  const ModuleNames& names = model.config().architecture->names;
  for (const std::string_view module : {names.embedding, names.head}) {
    const Parameter* p = model.Find(StrCat(module, ".weight"));
    if (p == nullptr || p->trainable) continue;
    ErrorDetail detail = loaded.At("train.freeze");
    detail.message = StrCat("it freezes ", p->name, ", whose rows for model.added_tokens must be learned");
    detail.hint = "leave it out of train.freeze, or add no tokens";
    return UsageError(detail);
  }
  return absl::OkStatus();
}

}  // namespace ftune
