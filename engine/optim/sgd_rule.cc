#include "engine/optim/rules.h"

namespace ftune {
namespace {

class SgdRule final : public UpdateRule {
 public:
  explicit SgdRule(const OptimizerOptions& options) : momentum_(options.momentum) {}

  std::vector<StateSpec> StateOf(const Parameter&, int64_t count) const override {
    if (momentum_ == 0.0f) return {};
    return {{"momentum", DType::kF32, count}};
  }
  int64_t grain() const override { return 1; }
  void Update(Backend& backend, Stream stream, const UpdateRun& run) const override {
    backend.Sgd(
        stream,
        {.update = run.update, .momentum = run.state.empty() ? Tensor() : run.state[0], .factor = momentum_});
  }

 private:
  float momentum_;
};

}  // namespace

std::unique_ptr<const UpdateRule> MakeSgdRule(const OptimizerOptions& options) {
  return std::make_unique<SgdRule>(options);
}

}  // namespace ftune
