#include "cmd/plan/roles.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "engine/format/model_config.h"
#include "engine/model/modules.h"
#include "parallel/mesh.h"

namespace ftune {
namespace {

constexpr int kMostOfData = 8;  // ranks of the data axis that are run; of more, the first and the last

std::vector<int> RanksToRun(int size, PlanDepth depth) {
  if (depth == PlanDepth::kShort) return {0};
  if (size > kMostOfData) return {0, size - 1};
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Ranks of the tensor axis whose slices are of the same sizes.
struct TensorClass {
  std::vector<int> ranks;
  std::vector<int64_t> sizes;
};

std::vector<TensorClass> ClassesOf(const ModelConfig& config, int tensor) {
  std::vector<TensorClass> classes;
  for (int rank = 0; rank < tensor; ++rank) {
    std::vector<int64_t> sizes;
    for (const ParameterShape& p : AdaptedModelParameters(config, {}, {rank, tensor})) {
      for (const Dimension& dimension : p.dims) sizes.push_back(dimension.local_size());
    }
    const auto alike = std::find_if(classes.begin(), classes.end(),
                                    [&](const TensorClass& known) { return known.sizes == sizes; });
    if (alike != classes.end()) {
      alike->ranks.push_back(rank);
    } else {
      classes.push_back({{rank}, std::move(sizes)});
    }
  }
  return classes;
}

// As MeshShape has it: tensor innermost, pipeline outermost.
int RankAt(const MeshShape& shape, int pipeline, int data, int tensor) {
  return (pipeline * shape.data + data) * shape.context * shape.tensor + tensor;
}

std::string NameOf(int pipeline, const TensorClass& tensor, const MeshShape& shape, bool only_class) {
  std::vector<std::string> parts;
  if (shape.pipeline > 1) parts.push_back(StrCat("pipeline ", pipeline));
  if (!only_class) parts.push_back(StrCat("tensor ", StrJoin(tensor.ranks, " ")));
  return parts.empty() ? "each rank" : StrJoin(parts, ", ");
}

// Of the role's `ranks` the one that needs most; `heard` is told of each.
absl::StatusOr<DryRank> RunRole(const Recipe& recipe, const ModelPlan& model,
                                const std::optional<PipelinePlan>& stages, const DryOptions& options,
                                const std::vector<int>& ranks,
                                const std::function<void(const DryRank& dry, bool first)>& heard,
                                RankRole& role) {
  DryRank most;
  for (const int rank : ranks) {
    FTUNE_ASSIGN_OR_RETURN(DryRank dry, RunDry(recipe, model, stages, rank, options));
    heard(dry, rank == ranks.front());
    if (rank != ranks.front() && dry.peak.total() <= most.peak.total()) continue;
    role.rank = rank;
    most = std::move(dry);
  }
  return most;
}

}  // namespace

absl::StatusOr<RolesOfMesh> FindRoles(const Recipe& recipe, const ModelPlan& model,
                                      const std::optional<PipelinePlan>& stages, const DryOptions& options,
                                      PlanDepth depth) {
  const MeshShape shape = ToMeshShape(recipe.parallel);
  FTUNE_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(model.model_path));
  const std::vector<TensorClass> classes = ClassesOf(config, shape.tensor);
  RolesOfMesh mesh;
  for (int pipeline = 0; pipeline < shape.pipeline; ++pipeline) {
    for (const TensorClass& tensor : classes) {
      std::vector<int> ranks;
      for (const int data : RanksToRun(shape.data, depth)) {
        ranks.push_back(RankAt(shape, pipeline, data, tensor.ranks.front()));
      }
      RankRole role = {.name = NameOf(pipeline, tensor, shape, classes.size() == 1),
                       .rank = ranks.front(),
                       .ranks = static_cast<int>(tensor.ranks.size()) * shape.data * shape.context};
      const bool as_before = depth == PlanDepth::kShort && pipeline > 1 && pipeline + 1 < shape.pipeline;
      if (as_before) {
        role.dry = (mesh.roles.end() - std::ssize(classes))->dry;
      } else {
        // Where only the first and the last are run, the first stands for all others.
        const int alike = shape.data - static_cast<int>(ranks.size()) + 1;
        const auto saved = [&](const DryRank& dry, bool first) {
          mesh.saved.Add(dry.saved, int64_t{first ? alike : 1} * std::ssize(tensor.ranks) * shape.context);
        };
        FTUNE_ASSIGN_OR_RETURN(role.dry, RunRole(recipe, model, stages, options, ranks, saved, role));
      }
      mesh.useful_flops += role.dry.useful_flops * role.ranks;
      mesh.recomputed_flops += role.dry.recomputed_flops * role.ranks;
      if (&tensor == &classes.front()) {
        mesh.parameters += role.dry.parameters;
        mesh.trainable += role.dry.trainable;
        mesh.saved.result += role.dry.saved.result;
      }
      mesh.roles.push_back(std::move(role));
    }
  }
  return mesh;
}

}  // namespace ftune
