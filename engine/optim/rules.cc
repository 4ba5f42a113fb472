#include "engine/optim/rules.h"

namespace ftune {

std::vector<std::unique_ptr<const UpdateRule>> MakeRules(const OptimizerOptions& options) {
  std::vector<std::unique_ptr<const UpdateRule>> rules;
  switch (options.kind) {
    case OptimizerKind::kAdamW:
      rules.push_back(MakeAdamWRule(options));
      break;
    case OptimizerKind::kAdamW8bit:
      rules.push_back(MakeAdamW8bitRule(options));
      rules.push_back(MakeAdamWRule(options));
      break;
    case OptimizerKind::kSgd:
      rules.push_back(MakeSgdRule(options));
      break;
    case OptimizerKind::kLion:
      rules.push_back(MakeLionRule(options));
      break;
    case OptimizerKind::kAdafactor:
      rules.push_back(MakeAdafactorRule());
      break;
    case OptimizerKind::kMuon:
      rules.push_back(MakeMuonRule(options));
      rules.push_back(MakeAdamWRule(options));
      break;
  }
  return rules;
}

}  // namespace ftune
