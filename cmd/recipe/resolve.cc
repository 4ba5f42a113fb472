#include "cmd/recipe/resolve.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/recipe/batch.h"
#include "cmd/recipe/errors.h"

namespace ftune {
namespace {

constexpr int64_t kMostRanks = 1000000;

// Sets what is still auto.
template <class T>
void Fill(Auto<T>& value, T resolved) {
  if (!value) value = std::move(resolved);
}

void ResolveAdapter(Recipe& recipe) {
  if (!recipe.adapter) return;
  AdapterSection& adapter = *recipe.adapter;
  const bool qlora = adapter.kind == AdapterKind::kQlora;
  Fill(adapter.quantize, qlora ? Quantization::kNf4 : Quantization::kNone);
  adapter.kind = AdapterKind::kLora;
  Fill(adapter.lora_alpha, 2.0 * static_cast<double>(adapter.lora_r));
  if (adapter.loraplus_lr_ratio) Fill(adapter.loraplus_lr_embedding, 1e-6);
}

void ResolveEvaluation(Recipe& recipe) {
  TrainSection& train = recipe.train;
  // Streamed data has no epochs that are known beforehand.
  const bool epochs = !recipe.data.streaming;
  if (epochs && recipe.data.has_evaluation() && !train.eval_steps) Fill(train.evals_per_epoch, 1.0);
}

void ResolveOptimizer(Recipe& recipe) {
  OptimizerSection& optimizer = recipe.optimizer;
  const OptimizerName name = optimizer.name;
  if (HasBetas(name)) {
    Fill(optimizer.beta1, 0.9);
    Fill(optimizer.beta2, name == OptimizerName::kLion ? 0.99 : 0.999);
  }
  if (HasEps(name)) Fill(optimizer.eps, 1e-8);
  if (HasMomentum(name)) Fill(optimizer.momentum, name == OptimizerName::kMuon ? 0.95 : 0.0);
  Fill(optimizer.learning_rate, recipe.adapter ? 2e-4 : 2e-5);
  if (!optimizer.warmup_steps) Fill(optimizer.warmup_ratio, 0.03);
}

void ResolvePlace(Recipe& recipe, const Environment& environment) {
  LaunchSection& launch = recipe.launch;
  Fill(launch.device, environment.has_cuda ? DeviceKind::kCuda : DeviceKind::kCpu);
  const bool cuda = launch.device == DeviceKind::kCuda;
  Fill(recipe.precision.weights, cuda ? WeightType::kBf16 : WeightType::kFp32);
  const bool has_hosts = !launch.hosts.empty() || launch.hostfile;
  Fill(launch.kind, has_hosts ? LaunchKind::kSsh : LaunchKind::kLocal);
}

// parallel.data and launch.ranks_per_host, from each other and the other axes.
absl::Status ResolveMesh(LoadedRecipe& loaded) {
  ParallelSection& parallel = loaded.recipe.parallel;
  LaunchSection& launch = loaded.recipe.launch;
  int64_t others = 1;
  for (int64_t axis : {parallel.tensor, parallel.pipeline, parallel.context, parallel.data.value_or(1)}) {
    others = axis > kMostRanks / others ? kMostRanks + 1 : others * axis;
  }
  const std::string axes =
      StrCat("tensor ", parallel.tensor, " × pipeline ", parallel.pipeline, " × context ", parallel.context,
             parallel.data ? StrCat(" × data ", *parallel.data) : "");
  if (others > kMostRanks) {
    ErrorDetail error = loaded.At("parallel.tensor");
    error.key = "parallel";
    error.found = axes;
    error.expected = StrCat("at most ", kMostRanks, " ranks");
    return RecipeStatus({std::move(error)});
  }
  const int64_t hosts = std::max<int64_t>(1, static_cast<int64_t>(launch.hosts.size()));
  const int64_t per_host = launch.ranks_per_host.value_or((others + hosts - 1) / hosts);
  const int64_t ranks = per_host * hosts;
  const bool fits = parallel.data ? ranks == others : ranks % others == 0;
  if (!fits) {
    ErrorDetail error = loaded.At(launch.ranks_per_host ? "launch.ranks_per_host" : "launch.hosts");
    error.found =
        StrCat(launch.ranks_per_host ? StrCat(per_host, " on ") : "", hosts, hosts == 1 ? " host" : " hosts");
    error.expected = StrCat(parallel.data ? "" : "a multiple of ", axes, " = ", others, " ranks");
    error.hint = parallel.data ? "change one of them, or leave parallel.data out to have it derived"
                               : "change one of them";
    return RecipeStatus({std::move(error)});
  }
  launch.ranks_per_host = per_host;
  Fill(parallel.data, ranks / others);
  return absl::OkStatus();
}

}  // namespace

absl::Status Resolve(LoadedRecipe& loaded, const Environment& environment) {
  Recipe& recipe = loaded.recipe;
  Fill(recipe.output_dir, StrCat("runs/", std::filesystem::path(loaded.file).stem().string()));
  ResolveAdapter(recipe);
  ResolveEvaluation(recipe);
  ResolveOptimizer(recipe);
  ResolvePlace(recipe, environment);
  FTUNE_RETURN_IF_ERROR(ResolveMesh(loaded));
  Fill(recipe.launch.threads, std::max<int64_t>(1, environment.cores / *recipe.launch.ranks_per_host));
  return ResolveBatch(loaded, *recipe.parallel.data);
}

}  // namespace ftune
