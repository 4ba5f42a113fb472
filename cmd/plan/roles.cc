#include "cmd/plan/roles.h"

#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "parallel/mesh.h"

namespace ftune {
namespace {

constexpr int kMostOfData = 8;  // ranks of the data axis that are run; of more, one fewer and the last

std::vector<int> RanksToRun(int size) {
  std::vector<int> ranks(std::min(size, kMostOfData));
  std::iota(ranks.begin(), ranks.end(), 0);
  ranks.back() = size - 1;
  return ranks;
}

// Ranks of one place on the pipeline and the tensor axis.
struct Place {
  int pipeline = 0, tensor = 0;

  std::string Name(const MeshShape& shape) const {
    std::vector<std::string> parts;
    if (shape.pipeline > 1) parts.push_back(StrCat("pipeline ", pipeline));
    if (shape.tensor > 1) parts.push_back(StrCat("tensor ", tensor));
    return parts.empty() ? "each rank" : StrJoin(parts, ", ");
  }
};

// As MeshShape has it: tensor innermost, pipeline outermost.
int RankAt(const MeshShape& shape, const Place& place, int data) {
  return (place.pipeline * shape.data + data) * shape.context * shape.tensor + place.tensor;
}

absl::StatusOr<RankRole> RoleAt(const Recipe& recipe, const ModelPlan& model,
                                const std::optional<PipelinePlan>& stages, const Place& place) {
  const MeshShape shape = ToMeshShape(recipe.parallel);
  RankRole role = {.name = place.Name(shape), .rank = -1, .ranks = shape.data * shape.context};
  for (const int data : RanksToRun(shape.data)) {
    const int rank = RankAt(shape, place, data);
    FTUNE_ASSIGN_OR_RETURN(DryRank dry, RunDry(recipe, model, stages, rank));
    if (role.rank >= 0 && dry.peak.total() <= role.dry.peak.total()) continue;
    role.rank = rank;
    role.dry = std::move(dry);
  }
  return role;
}

}  // namespace

absl::StatusOr<RolesOfMesh> FindRoles(const Recipe& recipe, const ModelPlan& model,
                                      const std::optional<PipelinePlan>& stages) {
  const MeshShape shape = ToMeshShape(recipe.parallel);
  RolesOfMesh mesh;
  for (int pipeline = 0; pipeline < shape.pipeline; ++pipeline) {
    size_t first_of_stage = mesh.roles.size();
    for (int tensor = 0; tensor < shape.tensor; ++tensor) {
      FTUNE_ASSIGN_OR_RETURN(RankRole role, RoleAt(recipe, model, stages, {pipeline, tensor}));
      if (tensor == 0) {
        mesh.parameters += role.dry.parameters;
        mesh.trainable += role.dry.trainable;
      }
      mesh.useful_flops += role.dry.useful_flops * role.ranks;
      mesh.recomputed_flops += role.dry.recomputed_flops * role.ranks;
      bool known = false;
      for (size_t i = first_of_stage; i < mesh.roles.size() && !known; ++i) {
        known = mesh.roles[i].dry.SameMemory(role.dry);
        if (known) mesh.roles[i].ranks += role.ranks;
      }
      if (!known) mesh.roles.push_back(std::move(role));
    }
    // Where the tensor axis makes no difference, it is not in the name.
    if (mesh.roles.size() == first_of_stage + 1) {
      MeshShape named = shape;
      named.tensor = 1;
      mesh.roles.back().name = Place{pipeline, 0}.Name(named);
    }
  }
  return mesh;
}

}  // namespace ftune
