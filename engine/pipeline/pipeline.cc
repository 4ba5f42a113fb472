#include "engine/pipeline/pipeline.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "parallel/schedule/check.h"
#include "parallel/schedule/drop_backward.h"
#include "parallel/schedule/insert_transfers.h"

namespace ftune {
namespace {

// The first of the rank's blocks that is trained; as many as the model has: none is.
size_t FirstTrainable(const Model& model) {
  for (const auto& block : model.blocks()) {
    if (block->store().has_trainable() && !block->copy()) return block->number();
  }
  return model.total_blocks();
}

// The stage of the rank's that has the block; -1: none.
int StageOf(const Model& model, size_t number) {
  for (const LocalStage& stage : model.stages()) {
    for (size_t i = stage.begin; i < stage.end; ++i) {
      if (model.blocks()[i]->number() == number) return stage.stage;
    }
  }
  return -1;
}

// FNV-1a of all lists, and of where one ends.
int64_t Fingerprint(const Schedule& schedule) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&](uint64_t value) { hash = (hash ^ value) * 0x100000001b3u; };
  for (const std::vector<Action>& actions : schedule.ranks) {
    for (const Action& action : actions) {
      add(static_cast<uint64_t>(action.kind));
      add(static_cast<uint64_t>(action.stage));
      add(static_cast<uint64_t>(action.microbatch));
    }
    add(actions.size());
  }
  return static_cast<int64_t>(hash >> 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Create(Mesh& mesh, const Model& model,
                                                           const ScheduleSource& source,
                                                           const UnitOptions& units) {
  std::unique_ptr<Pipeline> pipeline(new Pipeline());
  Communicator& axis = mesh.axis(MeshAxis::kPipeline);
  pipeline->source_ = source;
  pipeline->units_ = units;
  pipeline->rank_ = axis.rank();
  FTUNE_ASSIGN_OR_RETURN(pipeline->shape_, source.Shape(axis.size()));
  FTUNE_ASSIGN_OR_RETURN(pipeline->links_, StageLinks::Create(axis, pipeline->shape_));
  // The least of all ranks.
  FTUNE_ASSIGN_OR_RETURN(const int64_t least,
                         axis.AllReduce(-static_cast<int64_t>(FirstTrainable(model)), ReduceOp::kMax));
  pipeline->first_trainable_ = static_cast<size_t>(-least);
  FTUNE_ASSIGN_OR_RETURN(const int64_t stage,
                         axis.AllReduce(int64_t{StageOf(model, pipeline->first_trainable_)}, ReduceOp::kMax));
  pipeline->first_backward_stage_ = stage < 0 ? pipeline->stages() : static_cast<int>(stage);
  return pipeline;
}

std::unique_ptr<Pipeline> Pipeline::Single(const Model& model) {
  std::unique_ptr<Pipeline> pipeline(new Pipeline());
  pipeline->first_trainable_ = FirstTrainable(model);
  const int stage = StageOf(model, pipeline->first_trainable_);
  pipeline->first_backward_stage_ = std::max(stage, 0);
  return pipeline;
}

absl::StatusOr<const std::vector<Action>*> Pipeline::Actions(int microbatches) {
  if (microbatches == planned_for_) return &actions_;
  FTUNE_ASSIGN_OR_RETURN(Schedule schedule, source_.Make(shape_.ranks, microbatches));
  schedule = DropBackward(std::move(schedule), first_backward_stage_);
  schedule = PlaceUnits(InsertTransfers(std::move(schedule)), units_);
  FTUNE_RETURN_IF_ERROR(CheckSchedule(schedule, first_backward_stage_).status());
  fingerprint_ = alone() ? 0 : Fingerprint(schedule);
  actions_ = std::move(schedule.ranks[rank_]);
  planned_for_ = microbatches;
  return &actions_;
}

Pending Pipeline::Send(Stream stream, const Tensor& tensor, int stage) {
  return links_.Send(stream, tensor, shape_.RankOf(stage));
}

Pending Pipeline::Receive(Stream stream, const Tensor& tensor, int stage) {
  return links_.Receive(stream, tensor, shape_.RankOf(stage));
}

}  // namespace ftune
