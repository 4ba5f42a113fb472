#include "engine/optim/rules.h"

namespace ftune {
namespace {

// With torch.optim.Adafactor's own constants.
class AdafactorRule final : public UpdateRule {
 public:
  std::vector<StateSpec> StateOf(const Parameter& p, int64_t) const override {
    if (p.shape.size() != 2) return {{"variance", DType::kF32, p.size()}};
    return {{"row_variance", DType::kF32, p.local_shape[0], StateSpec::kOfWhole},
            {"col_variance", DType::kF32, p.local_shape[1], StateSpec::kOfWhole}};
  }
  int64_t grain() const override { return kWhole; }
  void Update(Backend& backend, Stream stream, const UpdateRun& run) const override {
    AdafactorArgs args = {.update = run.update, .step = run.step};
    if (run.state.size() == 1) {
      args.variance = run.state[0];
    } else {
      args.update.weights = run.update.weights.Reshape(run.first->local_shape[0], run.first->local_shape[1]);
      args.row_variance = run.state[0];
      args.col_variance = run.state[1];
    }
    backend.Adafactor(stream, args);
  }
};

}  // namespace

std::unique_ptr<const UpdateRule> MakeAdafactorRule() { return std::make_unique<AdafactorRule>(); }

}  // namespace ftune
