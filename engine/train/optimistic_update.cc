#include "engine/train/optimistic_update.h"

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

std::string WhyBarrier(const Pipeline& pipeline, const std::optional<float>& max_grad_norm,
                       bool states_on_disk) {
  if (!pipeline.GainsWithoutBarrier()) return "";
  const std::string schedule = StrCat("parallel.schedule ", ToString(pipeline.source().kind));
  constexpr std::string_view kWaits = "so all stages wait for each other before each update";
  if (max_grad_norm) {
    return StrCat(schedule, ": clipping needs the gradient norm first, ", kWaits,
                  "; set optimizer.max_grad_norm to null to let stages update without waiting");
  }
  if (states_on_disk) {
    return StrCat(schedule, ": an update of optimizer states on disk cannot be taken back, ", kWaits,
                  "; set memory.offload to none to let stages update without waiting");
  }
  return "";
}

OptimisticUpdate::OptimisticUpdate(Backend& backend, Stream stream, Optimizer& optimizer, ModelShards& shards)
    : backend_(backend),
      stream_(stream),
      optimizer_(optimizer),
      shards_(shards),
      backup_(optimizer.AllocateBackup(backend)) {}

absl::Status OptimisticUpdate::Apply(float learning_rate, const Tensor& gradient_scale) {
  shards_.SettleValues();
  optimizer_.Save(backend_, stream_, backup_);
  FTUNE_RETURN_IF_ERROR(optimizer_.Step(backend_, stream_, learning_rate, gradient_scale));
  shards_.PublishValues();
  return absl::OkStatus();
}

void OptimisticUpdate::TakeBack() {
  shards_.SettleValues();
  optimizer_.Restore(backend_, stream_, backup_);
  shards_.PublishValues();
}

}  // namespace ftune
