// The second home of a tied head's weight: where a pipeline puts the head on another rank than the embedding,
// this stands for the embedding beside the head. It belongs to no stage and is never run. Its gradient is the
// head's share of the weight's, and is summed with the embedding's before anything else (TiedSum), so that
// both homes are updated alike.
#pragma once

#include <cassert>

#include "engine/model/embedding_block.h"

namespace ftune {

class TiedWeightBlock final : public Block {
 public:
  TiedWeightBlock(const ModelConfig& config, const TensorAxis& axis, const ParameterPolicy& policy)
      : Block(axis), weight_(DeclareEmbeddingWeight(config, axis, policy, store())) {}

  const Parameter& weight() const { return weight_; }
  bool copy() const override { return true; }

  Tensor Forward(const Context&, const Tensor&, Saved*, bool) override { return NeverRun(); }
  Tensor BackwardInput(const Context&, const Tensor&, Saved&, bool, bool) override { return NeverRun(); }
  void BackwardWeight(const Context&, Saved&) override { NeverRun(); }

 private:
  static Tensor NeverRun() {
    assert(false);
    return {};
  }

  const Parameter& weight_;
};

}  // namespace ftune
