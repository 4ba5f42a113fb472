// The rules that ftune has, and what a user may set of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/optim/update_rule.h"

namespace ftune {

enum class OptimizerKind { kAdamW, kSgd, kLion, kAdafactor, kMuon, kAdamW8bit };

// Factor on Muon's learning rate for a matrix [a, b] (torch.optim.Muon's adjust_lr_fn).
enum class MuonScale {
  kMatchRmsAdamW,  // 0.2 √max(a, b): steps as large as AdamW's (Liu et al., "Muon is scalable", 2025)
  kOriginal,       // √max(1, a / b): Jordan's
};

// What a kind does not have is not looked at.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamW;
  float beta1 = 0.9f;  // AdamW, Lion
  float beta2 = 0.999f;
  float eps = 1e-8f;      // AdamW
  float momentum = 0.0f;  // SGD, Muon
  MuonScale muon_scale = MuonScale::kMatchRmsAdamW;
  float weight_decay = 0.0f;  // on matrices; norms and biases have none
  bool master = true;         // an f32 copy of bf16 weights; without it they are rounded stochastically
  uint64_t seed = 42;         // of that rounding
};

// The rules of a kind, in order: the first that covers a parameter has it; the last covers all.
using UpdateRules = std::vector<std::unique_ptr<const UpdateRule>>;
UpdateRules MakeRules(const OptimizerOptions& options);
// `hidden` as in UpdateRule::Covers.
const UpdateRule& RuleOf(const UpdateRules& rules, const Parameter& parameter, bool hidden);

std::unique_ptr<const UpdateRule> MakeAdamWRule(const OptimizerOptions& options);
// Parameters of at least 4096 elements, as in bitsandbytes: small ones would save nothing.
std::unique_ptr<const UpdateRule> MakeAdamW8bitRule(const OptimizerOptions& options);
std::unique_ptr<const UpdateRule> MakeSgdRule(const OptimizerOptions& options);
std::unique_ptr<const UpdateRule> MakeLionRule(const OptimizerOptions& options);
std::unique_ptr<const UpdateRule> MakeAdafactorRule();
// Hidden matrices, those of adapters included.
std::unique_ptr<const UpdateRule> MakeMuonRule(const OptimizerOptions& options);

}  // namespace ftune
