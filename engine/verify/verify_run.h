// A few steps of training, and how far those of a mesh are from those of one rank: of the same weights, on
// the same global batches.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/loader/batch_source.h"
#include "engine/optim/lr_schedule.h"
#include "engine/train/step.h"
#include "engine/verify/reference_file.h"

namespace ftune {

struct VerifyStep {
  double loss = 0.0;
  double grad_norm = 0.0;
};

// What one rank leaves to be compared with, in a folder of its own: the gradients of the first step, before
// they are clipped, the weights before it and after the last, and the steps.
class VerifyReference {
 public:
  explicit VerifyReference(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path gradients() const { return folder_ / "gradients.safetensors"; }
  std::filesystem::path start() const { return folder_ / "start.safetensors"; }
  std::filesystem::path weights() const { return folder_ / "weights.safetensors"; }

  absl::Status WriteSteps(const std::vector<VerifyStep>& steps) const;
  absl::StatusOr<std::vector<VerifyStep>> ReadSteps() const;

 private:
  std::filesystem::path steps() const { return folder_ / "steps.json"; }

  std::filesystem::path folder_;
};

// Errors are relative. An optimizer that divides by the gradient's own size turns noise into whole steps
// (AdamW on a key's bias, whose gradient is zero in mathematics): then the losses after the first step are
// compared loosely, and the weights all together.
struct VerifyTolerances {
  double gradient = 1e-5;  // each parameter's, of the first step; its loss and norm too
  double loss = 1e-5;      // of the later steps, and their norms
  double weights = 1e-5;
  bool by_parameter = true;  // weights
  static VerifyTolerances For(OptimizerKind kind);
};

struct VerifyMeasure {
  std::string what;  // "gradient of model.norm.weight", "loss of step 3"
  double error = 0.0;
  double tolerance = 0.0;
  bool ok() const { return error <= tolerance; }
};

struct VerifyResult {
  // One of each kind: the worst.
  VerifyMeasure loss, grad_norm, gradient, weights;

  bool ok() const { return loss.ok() && grad_norm.ok() && gradient.ok() && weights.ok(); }
  // That with the largest error in tolerances.
  const VerifyMeasure& worst() const;
};

struct VerifyTrainer {
  Backend& backend;
  TrainStep& step;
  Model& model;
  BatchSource& batches;
  const LrOptions& learning_rate;
  // Says that nobody wants to know any more: the run is then a Cancelled error.
  std::function<bool()> stop = [] { return false; };
};

// `steps` steps on one rank.
absl::Status RunReference(const VerifyTrainer& trainer, int64_t steps, const VerifyReference& reference);
// As many steps as the reference has, on all ranks of the mesh: the same result on all.
absl::StatusOr<VerifyResult> RunComparison(const VerifyTrainer& trainer, const VerifyReference& reference,
                                           const VerifyTolerances& tolerances);

}  // namespace ftune
