// Final norm, language-model head and cross-entropy, fused in chunks over the tokens that are trained: the
// logits of a batch never exist at once, and tokens that do not count are not computed. Ranks of the tensor
// axis have each the logits of a slice of the vocabulary, and terms of the gradient of x, which are summed
// once a batch.
#pragma once

#include "engine/model/block.h"
#include "engine/model/config.h"
#include "engine/model/linear.h"
#include "engine/model/norm.h"

namespace ftune {

class HeadBlock final : public Block {
 public:
  // A tied head uses the embedding's weight, `tied`, which then outlives this block.
  HeadBlock(const ModelConfig& config, const TensorAxis& axis, const ParameterPolicy& policy,
            const Parameter* tied);

  bool backward_reads_values() const override { return false; }
  void Bind() override;
  void Refresh(Backend& backend, Stream stream) override;

  // Adds the sum of token losses to context.loss and returns an undefined tensor. In training the gradients
  // are made here, where the logits are: those of the parameters are added to theirs at once, that of x is
  // kept in `saved`.
  Tensor Forward(const Context& context, const Tensor& x, Saved* saved, bool output_needed) override;
  Tensor BackwardInput(const Context& context, const Tensor& dy, Saved& saved, bool dx_needed,
                       bool with_weights) override;
  void BackwardWeight(const Context& context, Saved& saved) override;

  // Logits [rows, vocab] of the rows of x [rows, hidden], all of which each rank has: for generation.
  Tensor Logits(const Context& context, const Tensor& x) const;

  // Rows of a chunk of logits: as many as keep it within so many bytes, at least 16.
  static int64_t ChunkRows(int64_t vocab_size, int64_t bytes);

 private:
  // CrossEntropy, of this rank's slice of the logits.
  void AddLoss(const Context& context, const CrossEntropyArgs& args) const;
  // scores [rows, vocab] of normed [rows, hidden]. `saved` may be null.
  void Score(const Context& context, const Tensor& normed, const Tensor& scores, AdapterSaved* saved) const;
  // The gradients of scores: adds to those of the weight and the adapter. → that of normed, or this rank's
  // term of it.
  Tensor BackwardScore(const Context& context, const Tensor& dscores, const Tensor& normed,
                       AdapterSaved& saved) const;

  TensorAxis axis_;
  Dimension vocabulary_;
  Norm norm_;
  const Parameter* weight_;  // [vocab, hidden]
  std::unique_ptr<LinearAdapter> adapter_;
  float softcap_;  // of the logits; 0: none
};

}  // namespace ftune
