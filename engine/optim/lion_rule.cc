#include "engine/optim/rules.h"

namespace ftune {
namespace {

class LionRule final : public UpdateRule {
 public:
  explicit LionRule(const OptimizerOptions& options) : beta1_(options.beta1), beta2_(options.beta2) {}

  std::vector<StateSpec> StateOf(const Parameter&, int64_t count) const override {
    return {{"momentum", DType::kF32, count}};
  }
  int64_t grain() const override { return 1; }
  void Update(Backend& backend, Stream stream, const UpdateRun& run) const override {
    backend.Lion(stream, {.update = run.update, .momentum = run.state[0], .beta1 = beta1_, .beta2 = beta2_});
  }

 private:
  float beta1_, beta2_;
};

}  // namespace

std::unique_ptr<const UpdateRule> MakeLionRule(const OptimizerOptions& options) {
  return std::make_unique<LionRule>(options);
}

}  // namespace ftune
