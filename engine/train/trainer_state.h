// What training goes on from after an interruption, beside weights and what the optimizer keeps for them.
#pragma once

#include <cstdint>
#include <optional>

#include "data/loader/data_position.h"
#include "engine/train/loss_scaler.h"

namespace ftune {

struct TrainerState {
  DataPosition position;  // of the first batch that was not trained on; its step is the checkpoint's
  int64_t updates = 0;    // of the optimizer: skipped steps do not count
  int64_t skipped = 0;    // steps whose gradients overflowed
  double epoch = 0.0;     // times through the data
  std::optional<LossScaler::State> loss_scale;
  std::optional<double> loss, eval_loss;  // the last ones
  std::optional<int64_t> eval_step;       // of the last evaluation
  std::optional<double> best_loss;        // of all evaluations
  int64_t best_step = 0;
  int64_t worse_in_a_row = 0;  // evaluations since the best one
};

}  // namespace ftune
