// A rank's place in a pipeline: what it does in a step, and with whom it exchanges what.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/pipeline/schedule_source.h"
#include "engine/pipeline/stage_links.h"
#include "parallel/mesh.h"
#include "parallel/schedule/place_units.h"

namespace ftune {

class Pipeline {
 public:
  // `model` has the stages of this rank (PartOf). Called by all ranks of the mesh.
  static absl::StatusOr<std::unique_ptr<Pipeline>> Create(Mesh& mesh, const Model& model,
                                                          const ScheduleSource& source,
                                                          const UnitOptions& units);
  // One rank that has the whole model.
  static std::unique_ptr<Pipeline> Single(const Model& model);

  bool alone() const { return shape_.ranks == 1; }
  int stages() const { return shape_.stages(); }
  const ScheduleSource& source() const { return source_; }
  // What the schedule gains is lost where stages wait for each other before they update.
  bool GainsWithoutBarrier() const {
    return !alone() && !source_.given && ftune::GainsWithoutBarrier(source_.kind);
  }
  bool Here(int stage) const { return shape_.RankOf(stage) == rank_; }

  // Block numbers, of the whole model: below it nothing is trained. As many as there are blocks: nothing is.
  size_t first_trainable() const { return first_trainable_; }

  // What this rank does in a step of so many microbatches: checked, and kept until the next step of another
  // number.
  absl::StatusOr<const std::vector<Action>*> Actions(int microbatches);
  // A hash of what all ranks of the pipeline do in such a step, in which those of all ranks must agree. Not
  // negative; 0 where this rank is alone.
  int64_t fingerprint() const { return fingerprint_; }

  // With the rank of a stage that is not here; see StageLinks.
  Pending Send(Stream stream, const Tensor& tensor, int stage);
  Pending Receive(Stream stream, const Tensor& tensor, int stage);

  absl::Status status() const { return links_.status(); }
  CommTraffic traffic() const { return links_.traffic(); }

 private:
  Pipeline() = default;

  ScheduleSource source_;
  UnitOptions units_;
  ScheduleShape shape_;
  int rank_ = 0;
  size_t first_trainable_ = 0;
  int first_backward_stage_ = 0;
  StageLinks links_;
  int planned_for_ = -1;  // microbatches
  std::vector<Action> actions_;
  int64_t fingerprint_ = 0;
};

}  // namespace ftune
