#include "engine/optim/rules.h"

namespace ftune {
namespace {

constexpr int64_t kSmallest = 4096;

class AdamW8bitRule final : public UpdateRule {
 public:
  explicit AdamW8bitRule(const OptimizerOptions& options)
      : beta1_(options.beta1), beta2_(options.beta2), eps_(options.eps) {}

  bool Covers(const Parameter& p, bool) const override { return p.size() >= kSmallest; }
  std::vector<StateSpec> StateOf(const Parameter&, int64_t count) const override {
    const int64_t blocks = StateBlocks(count);
    return {{"moment1_codes", DType::kU8, count},
            {"moment1_scales", DType::kF32, blocks, kStateBlock},
            {"moment2_codes", DType::kU8, count},
            {"moment2_scales", DType::kF32, blocks, kStateBlock}};
  }
  int64_t grain() const override { return kStateBlock; }  // a block of state is of one parameter
  void Update(Backend& backend, Stream stream, const UpdateRun& run) const override {
    backend.AdamW8bit(stream, {.update = run.update,
                               .moment1 = run.state[0],
                               .moment2 = run.state[2],
                               .scale1 = run.state[1],
                               .scale2 = run.state[3],
                               .beta1 = beta1_,
                               .beta2 = beta2_,
                               .eps = eps_,
                               .step = run.step});
  }

 private:
  float beta1_, beta2_, eps_;
};

}  // namespace

std::unique_ptr<const UpdateRule> MakeAdamW8bitRule(const OptimizerOptions& options) {
  return std::make_unique<AdamW8bitRule>(options);
}

}  // namespace ftune
