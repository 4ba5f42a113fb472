// Batches whose data is looked at before the first of them is used.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "data/loader/batch_source.h"

namespace ftune {

class CheckedBatches final : public BatchSource {
 public:
  // `check` is called once, when the source has made its first batch; its error comes instead of that.
  CheckedBatches(std::unique_ptr<BatchSource> source, std::function<absl::Status()> check)
      : source_(std::move(source)), check_(std::move(check)) {}

  absl::StatusOr<std::optional<StepBatches>> Next() override {
    absl::StatusOr<std::optional<StepBatches>> batches = source_->Next();
    if (!check_ || !batches.ok() || !*batches) return batches;
    const absl::Status checked = std::exchange(check_, nullptr)();
    if (!checked.ok()) return checked;
    return batches;
  }
  absl::Status Seek(const DataPosition& position) override { return source_->Seek(position); }
  DataPosition position() const override { return source_->position(); }
  void Interrupt() override { source_->Interrupt(); }

 private:
  std::unique_ptr<BatchSource> source_;
  std::function<absl::Status()> check_;
};

}  // namespace ftune
