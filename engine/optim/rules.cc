#include "engine/optim/rules.h"

#include <algorithm>
#include <cassert>

namespace ftune {

UpdateRules MakeRules(const OptimizerOptions& options) {
  UpdateRules rules;
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

const UpdateRule& RuleOf(const UpdateRules& rules, const Parameter& parameter, bool hidden) {
  const auto rule =
      std::find_if(rules.begin(), rules.end(), [&](const auto& r) { return r->Covers(parameter, hidden); });
  assert(rule != rules.end());
  return **rule;
}

}  // namespace ftune
