#include <algorithm>
#include <cmath>

#include "engine/optim/rules.h"

namespace ftune {
namespace {

class MuonRule final : public UpdateRule {
 public:
  explicit MuonRule(const OptimizerOptions& options)
      : momentum_(options.momentum), scale_(options.muon_scale) {}

  bool Covers(const Parameter& p, bool hidden) const override { return hidden && p.shape.size() == 2; }
  std::vector<StateSpec> StateOf(const Parameter& p, int64_t) const override {
    return {{"momentum", DType::kF32, p.size()}};
  }
  int64_t grain() const override { return kWhole; }
  void Update(Backend& backend, Stream stream, const UpdateRun& run) const override {
    const int64_t rows = run.first->local_shape[0], cols = run.first->local_shape[1];
    MuonArgs args = {.update = run.update,
                     .momentum = run.state[0],
                     .factor = momentum_,
                     .scale = ScaleOf(static_cast<double>(rows), static_cast<double>(cols))};
    args.update.weights = run.update.weights.Reshape(rows, cols);
    backend.Muon(stream, args);
  }

 private:
  float ScaleOf(double rows, double cols) const {
    return static_cast<float>(scale_ == MuonScale::kOriginal ? std::sqrt(std::max(1.0, rows / cols))
                                                             : 0.2 * std::sqrt(std::max(rows, cols)));
  }

  float momentum_;
  MuonScale scale_;
};

}  // namespace

std::unique_ptr<const UpdateRule> MakeMuonRule(const OptimizerOptions& options) {
  return std::make_unique<MuonRule>(options);
}

}  // namespace ftune
