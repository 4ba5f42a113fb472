#include "engine/train/optimistic_update.h"

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

std::string WhyBarrier(const Pipeline& pipeline, const BarrierReasons& reasons) {
  if (!pipeline.GainsWithoutBarrier()) return "";
  const auto because = [&](std::string_view reason, std::string_view remedy) {
    return StrCat("parallel.schedule ", ToString(pipeline.source().kind), ": ", reason,
                  ", so all stages wait for each other before each update; ", remedy,
                  " to let stages update without waiting");
  };
  if (reasons.max_grad_norm) {
    return because("clipping needs the gradient norm first", "set optimizer.max_grad_norm to null");
  }
  if (reasons.states_on_disk) {
    return because("an update of optimizer states on disk cannot be taken back",
                   "set memory.offload to none");
  }
  if (reasons.compresses) {
    return because("what parallel.compression rounded away cannot be taken back",
                   "set parallel.compression to none");
  }
  return "";
}

OptimisticUpdate::OptimisticUpdate(Backend& backend, Stream stream, Optimizer& optimizer, ModelShards& shards,
                                   LossScaler* scaler)
    : backend_(backend),
      stream_(stream),
      optimizer_(optimizer),
      shards_(shards),
      scaler_(scaler),
      backup_(optimizer.AllocateBackup(backend)) {}

absl::Status OptimisticUpdate::Apply(float learning_rate, const Tensor& gradient_scale) {
  shards_.SettleValues();
  optimizer_.Save(backend_, stream_, backup_);
  if (scaler_ != nullptr) {
    scaler_backup_ = scaler_->state();
    scaler_->Update(false);
  }
  FTUNE_RETURN_IF_ERROR(optimizer_.Step(backend_, stream_, learning_rate, gradient_scale));
  shards_.PublishValues();
  return absl::OkStatus();
}

void OptimisticUpdate::TakeBack() {
  shards_.SettleValues();
  optimizer_.Restore(backend_, stream_, backup_);
  if (scaler_ != nullptr) scaler_->set_state(scaler_backup_);
  shards_.PublishValues();
}

}  // namespace ftune
