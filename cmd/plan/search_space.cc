#include "cmd/plan/search_space.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/strings.h"
#include "cmd/recipe/key_table.h"
#include "cmd/recipe/node.h"
#include "engine/model/tensor_split.h"

namespace ftune {
namespace {

constexpr int64_t kMostTensor = 8;      // ranks that share each layer
constexpr int64_t kMostPipeline = 16;   // stages in a row
constexpr int64_t kMostMicroBatch = 8;  // packs

struct ScheduleChoice {
  std::string_view name;
  int64_t virtual_stages;
};
constexpr std::array<ScheduleChoice, 3> kSchedules = {{{"1f1b", 1}, {"interleaved", 2}, {"zb-v", 2}}};

std::vector<int64_t> PowersUpTo(int64_t most) {
  std::vector<int64_t> powers;
  for (int64_t power = 1; power <= most; power *= 2) powers.push_back(power);
  return powers;
}

std::set<int> HostCounts(const Target& target, int max_hosts) {
  std::set<int> counts = {target.hosts};
  if (max_hosts == 0) return counts;
  counts = {max_hosts};
  for (const int64_t power : PowersUpTo(max_hosts)) counts.insert(static_cast<int>(power));
  return counts;
}

// Empty where the mesh cannot be, or leaves the data axis more ranks than there are packs.
std::vector<SearchFamily> FamiliesOn(const SearchChoice& mesh, const Recipe& resolved, int64_t ranks) {
  const int64_t rest = mesh.tensor * mesh.pipeline;
  if (ranks % rest != 0) return {};
  const int64_t data = ranks / rest, batch = *resolved.train.global_batch_size;
  if (batch % data != 0) return {};
  SearchFamily family = {.base = mesh};
  family.zero_stages = data == 1 ? std::vector<int64_t>{0} : std::vector<int64_t>{1, 2, 3};
  for (const int64_t packs : PowersUpTo(kMostMicroBatch)) {
    // A pipeline of fewer microbatches than stages stands still most of the time.
    if (batch / data % packs == 0 && (mesh.pipeline == 1 || batch / data / packs >= mesh.pipeline)) {
      family.micro_batches.push_back(packs);
    }
  }
  if (family.micro_batches.empty()) return {};
  if (mesh.pipeline == 1) return {family};
  std::vector<SearchFamily> families;
  for (const ScheduleChoice& schedule : kSchedules) {
    family.base.schedule = schedule.name;
    family.base.virtual_stages = schedule.virtual_stages;
    families.push_back(family);
  }
  return families;
}

}  // namespace

std::string SearchChoice::Describe(int64_t ranks) const {
  std::string text = StrCat("tensor ", tensor, ", pipeline ", pipeline);
  if (pipeline > 1) StrAppend(text, " (", schedule, ")");
  StrAppend(text, ", data ", ranks / tensor / pipeline, ", zero ", zero, ", microbatch ", micro_batch);
  Recipe recipe;
  recipe.memory = {.activation_checkpointing = checkpointing, .offload = offload};
  for (const char* key : {"activation_checkpointing", "offload"}) {
    const RecipeKey& row = *RecipeKeys().Find(StrCat("memory.", key));
    const std::string value = WriteFlow(*row.write(recipe));
    if (value != row.default_value) StrAppend(text, ", ", key, " ", value);
  }
  return text;
}

std::vector<SearchFamily> SearchFamilies(const Recipe& resolved, const ModelConfig& config,
                                         const Target& target, int max_hosts) {
  std::vector<SearchFamily> families;
  for (const int hosts : HostCounts(target, max_hosts)) {
    const int64_t ranks = int64_t{hosts} * target.per_host;
    for (const int64_t tensor : PowersUpTo(std::min<int64_t>(kMostTensor, target.per_host))) {
      if (!CheckTensorSplit(config, static_cast<int>(tensor)).ok()) continue;
      const int64_t most = std::min({kMostPipeline, ranks / tensor, config.num_layers});
      for (const int64_t pipeline : PowersUpTo(most)) {
        const SearchChoice mesh = {.hosts = hosts, .tensor = tensor, .pipeline = pipeline};
        for (SearchFamily& family : FamiliesOn(mesh, resolved, ranks)) {
          if (family.base.pipeline * family.base.virtual_stages > config.num_layers) continue;
          families.push_back(std::move(family));
        }
      }
    }
  }
  return families;
}

std::vector<ActivationCheckpointing> CheckpointingPolicies() {
  using Kind = ActivationCheckpointing::Kind;
  return {{.kind = Kind::kNone}, {.kind = Kind::kSelective}, {.kind = Kind::kFull}};
}

LoadedRecipe WithChoice(LoadedRecipe given, const SearchChoice& choice, int64_t ranks, int64_t global_batch) {
  Recipe& recipe = given.recipe;
  recipe.parallel.tensor = choice.tensor;
  recipe.parallel.pipeline = choice.pipeline;
  recipe.parallel.context = 1;
  recipe.parallel.data = ranks / choice.tensor / choice.pipeline;
  recipe.parallel.schedule = choice.schedule;
  recipe.parallel.virtual_stages = choice.virtual_stages;
  recipe.parallel.stages.reset();
  recipe.parallel.zero = choice.zero;
  recipe.parallel.shard_size.reset();
  recipe.parallel.sequence_parallel = choice.tensor > 1;
  recipe.train.global_batch_size = global_batch;
  recipe.train.micro_batch_size = choice.micro_batch;
  recipe.train.gradient_accumulation_steps.reset();
  recipe.memory.activation_checkpointing = choice.checkpointing;
  recipe.memory.offload = choice.offload;
  given.given = recipe;
  return given;
}

}  // namespace ftune
