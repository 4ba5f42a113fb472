#include "engine/optim/rules.h"

namespace ftune {
namespace {

class AdamWRule final : public UpdateRule {
 public:
  explicit AdamWRule(const OptimizerOptions& options)
      : beta1_(options.beta1), beta2_(options.beta2), eps_(options.eps) {}

  std::vector<StateSpec> StateOf(const Parameter&, int64_t count) const override {
    return {{"moment1", DType::kF32, count}, {"moment2", DType::kF32, count}};
  }
  int64_t grain() const override { return 1; }
  void Update(Backend& backend, Stream stream, const UpdateRun& run) const override {
    backend.AdamW(stream, {.update = run.update,
                           .moment1 = run.state[0],
                           .moment2 = run.state[1],
                           .beta1 = beta1_,
                           .beta2 = beta2_,
                           .eps = eps_,
                           .step = run.step});
  }

 private:
  float beta1_, beta2_, eps_;
};

}  // namespace

std::unique_ptr<const UpdateRule> MakeAdamWRule(const OptimizerOptions& options) {
  return std::make_unique<AdamWRule>(options);
}

}  // namespace ftune
