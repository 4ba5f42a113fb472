#include "cmd/recipe/resolve.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/recipe/batch.h"
#include "cmd/recipe/errors.h"
#include "cmd/recipe/types.h"
#include "parallel/schedule/schedule.h"

namespace ftune {
namespace {

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
  const bool launched = environment.ranks > 0;
  const bool slurm = launched ? environment.source == RankSource::kSlurm : environment.slurm;
  Fill(launch.kind, slurm       ? LaunchKind::kSlurm
                    : launched  ? LaunchKind::kEnv
                    : has_hosts ? LaunchKind::kSsh
                                : LaunchKind::kLocal);
}

// One axis of the mesh, as the recipe names it.
struct Axis {
  const char* name;
  Auto<int64_t>* size;
};

std::string Describe(const std::vector<Axis>& axes) {
  std::string text;
  for (const Axis& axis : axes) {
    if (*axis.size) StrAppend(text, text.empty() ? "" : " × ", axis.name, " ", **axis.size);
  }
  return text;
}

// The axis that the others leave ranks to, if one is auto. parallel.data is where nothing is said of it.
absl::StatusOr<const Axis*> FindAutoAxis(LoadedRecipe& loaded, const std::vector<Axis>& axes) {
  const Axis* found = nullptr;
  for (const Axis& axis : axes) {
    const bool given = loaded.places.contains(StrCat("parallel.", axis.name));
    if (*axis.size) continue;
    if (found != nullptr && !given) {
      *axis.size = 1;
    } else if (found != nullptr) {
      ErrorDetail error = loaded.At(StrCat("parallel.", axis.name));
      error.found = StrCat("auto, beside parallel.", found->name, ": auto");
      error.expected = "one axis at most that is auto";
      error.hint = "give a number for one of them";
      return RecipeStatus({std::move(error)});
    } else {
      found = &axis;
    }
  }
  return found;
}

// How many ranks there are: those that a launcher has started, or those that ftune is to start.
struct Ranks {
  int64_t total = 1;
  int64_t per_host = 1;
};

absl::Status DoesNotMultiplyOut(const LoadedRecipe& loaded, const Environment& environment,
                                const Ranks& ranks, const std::vector<Axis>& axes, int64_t product,
                                const Axis* automatic) {
  const LaunchSection& launch = loaded.recipe.launch;
  ErrorDetail error;
  if (environment.ranks > 0) {
    const bool slurm = environment.source == RankSource::kSlurm;
    error = {.file = "environment",
             .key = slurm ? "SLURM_NTASKS" : "WORLD_SIZE",
             .found = StrCat(environment.ranks)};
  } else {
    const size_t hosts = std::max<size_t>(1, environment.slots.size());
    const bool by_slots = std::any_of(environment.slots.begin(), environment.slots.end(), std::identity());
    error = !environment.slots_said_by.empty()
                ? ErrorDetail{.file = kCommandLine, .key = environment.slots_said_by}
                : loaded.At(!by_slots && launch.ranks_per_host  ? "launch.ranks_per_host"
                            : launch.kind == LaunchKind::kSlurm ? "launch.slurm.nodes"
                            : launch.hostfile                   ? "launch.hostfile"
                                                                : "launch.hosts");
    error.found = by_slots ? StrCat(ranks.total, " ranks on ", hosts, " hosts")
                           : StrCat(launch.ranks_per_host ? StrCat(ranks.per_host, " on ") : "", hosts,
                                    hosts == 1 ? " host" : " hosts");
  }
  error.expected = StrCat(automatic ? "a multiple of " : "", Describe(axes), " = ", product, " ranks");
  error.hint =
      automatic ? "change one of them" : "change one of them, or leave parallel.data out to have it derived";
  return RecipeStatus({std::move(error)});
}

// The axes and launch.ranks_per_host, from each other.
absl::Status ResolveMesh(LoadedRecipe& loaded, const Environment& environment) {
  ParallelSection& parallel = loaded.recipe.parallel;
  LaunchSection& launch = loaded.recipe.launch;
  const std::vector<Axis> axes = {{"tensor", &parallel.tensor},
                                  {"pipeline", &parallel.pipeline},
                                  {"context", &parallel.context},
                                  {"data", &parallel.data}};
  FTUNE_ASSIGN_OR_RETURN(const Axis* const automatic, FindAutoAxis(loaded, axes));
  int64_t product = 1;
  for (const Axis& axis : axes) {
    const int64_t size = axis.size->value_or(1);
    product = size > kMostRanks / product ? kMostRanks + 1 : product * size;
  }
  if (product > kMostRanks) {
    ErrorDetail error = loaded.At("parallel.tensor");
    error.key = "parallel";
    error.found = Describe(axes);
    error.expected = StrCat("at most ", kMostRanks, " ranks");
    return RecipeStatus({std::move(error)});
  }
  Ranks ranks;
  if (environment.ranks > 0) {
    ranks.total = environment.ranks;
    ranks.per_host = environment.ranks_per_host > 0 ? environment.ranks_per_host
                                                    : launch.ranks_per_host.value_or(environment.ranks);
  } else {
    // The axes that are set, over the hosts that leave it open.
    const int64_t said = environment.RanksOnHosts(0);
    const int64_t open =
        std::max<int64_t>(1, std::count(environment.slots.begin(), environment.slots.end(), 0));
    const int64_t needed = std::max<int64_t>(open, product - said);
    ranks.per_host = launch.ranks_per_host.value_or((needed + open - 1) / open);
    ranks.total = environment.slots.empty() ? ranks.per_host : environment.RanksOnHosts(ranks.per_host);
  }
  if (automatic ? ranks.total % product != 0 : ranks.total != product) {
    return DoesNotMultiplyOut(loaded, environment, ranks, axes, product, automatic);
  }
  launch.ranks_per_host = ranks.per_host;
  if (automatic) *automatic->size = ranks.total / product;
  return absl::OkStatus();
}

// Kinds that are made of two stages a rank have them without being told.
void ResolveStages(ParallelSection& parallel) {
  const std::optional<ScheduleKind> kind = FindScheduleKind(parallel.schedule);
  if (kind && ChunksOf(*kind) > 0) parallel.virtual_stages = ChunksOf(*kind);
}

// parallel.shard_size, where ZeRO shards anything.
absl::Status ResolveSharding(LoadedRecipe& loaded) {
  ParallelSection& parallel = loaded.recipe.parallel;
  if (parallel.zero == 0) return absl::OkStatus();
  Fill(parallel.shard_size, *parallel.data);
  if (*parallel.data % *parallel.shard_size == 0) return absl::OkStatus();
  ErrorDetail error = loaded.At("parallel.shard_size");
  error.found = StrCat(*parallel.shard_size);
  error.expected = StrCat("a divisor of parallel.data, which is ", *parallel.data);
  error.hint = "change one of them, or leave shard_size out to shard over all of them";
  return RecipeStatus({std::move(error)});
}

}  // namespace

int64_t Environment::RanksOnHosts(int64_t per_host) const {
  int64_t ranks = 0;
  for (const int of_host : slots) ranks += of_host > 0 ? of_host : per_host;
  return ranks;
}

std::string DefaultOutput(const std::string& file) {
  return StrCat("runs/", std::filesystem::path(file).stem().string());
}

absl::Status Resolve(LoadedRecipe& loaded, const Environment& environment) {
  Recipe& recipe = loaded.recipe;
  if (!loaded.given) loaded.given = recipe;
  Fill(recipe.output_dir, DefaultOutput(loaded.file));
  ResolveAdapter(recipe);
  ResolveEvaluation(recipe);
  ResolveOptimizer(recipe);
  ResolvePlace(recipe, environment);
  FTUNE_RETURN_IF_ERROR(ResolveMesh(loaded, environment));
  FTUNE_RETURN_IF_ERROR(ResolveSharding(loaded));
  ResolveStages(recipe.parallel);
  Fill(recipe.launch.threads, std::max<int64_t>(1, environment.cores / *recipe.launch.ranks_per_host));
  return ResolveBatch(loaded, *recipe.parallel.data);
}

}  // namespace ftune
