// The first half of a decoder block: norm, attention, residual.
#pragma once

#include <optional>

#include "engine/model/block.h"
#include "engine/model/config.h"
#include "engine/model/linear.h"
#include "engine/model/norm.h"

namespace ftune {

class AttentionLayer {
 public:
  static constexpr int kSavedSlots = 15;
  static constexpr int kAdapters = 2;

  AttentionLayer(const ModelConfig& config, int64_t layer, const TensorAxis& axis,
                 const ParameterPolicy& policy, ParameterStore& store);

  void Bind();
  // See Block::Refresh.
  void Refresh(Backend& backend, Stream stream);
  // Undefined: positions are not rotated.
  void set_rope_table(const Tensor& table) { rope_table_ = table; }
  // Positions are rotated by the batch's own table.
  void use_text_positions() { text_positions_ = true; }

  // x [tokens, hidden] → x + attention(norm(x)). `saved` may be null; what `keep` does not keep is made again
  // in backward.
  Tensor Forward(const Context& context, const Tensor& x, Saved* saved, Keep keep) const;
  // dy becomes dx where that is needed, and is otherwise left as something else. Without `with_weights`,
  // `saved` then holds what BackwardWeight needs.
  void BackwardInput(const Context& context, const Tensor& dy, Saved& saved, bool dx_needed,
                     bool with_weights) const;
  void BackwardWeight(const Context& context, Saved& saved) const;

 private:
  // q and k as attention takes them (normalised, rotated), and v; columns of one or two tensors.
  struct Operands {
    Tensor q, k, v;
  };
  Operands Split(const Tensor& qkv) const;
  // Of saved tensors: with norms of q and k, those lie in a tensor of their own.
  Operands SavedOperands(const Saved& saved) const;
  // What attention takes, from the product `qkv`; with norms of q and k keeps in `saved` what backward needs.
  Operands Prepare(const Context& context, const Tensor& qkv, Saved* saved) const;
  // Gradients with respect to Prepare's result become those with respect to its argument.
  void PrepareBackward(const Context& context, const Tensor& dqkv, Saved& saved) const;

  // Rotates q and k, or rotates their gradients back.
  void Rotate(const Context& context, const Tensor& qk, bool inverse) const;

  void AddQkvGradients(const Context& context, const Tensor& dqkv, const Saved& saved) const;

  Tensor Attend(const Context& context, const Operands& operands, Tensor* lse) const;
  // Appends the new keys and values to the layer's cache and attends to all of it.
  Tensor AttendCached(const Context& context, const Operands& operands) const;

  TensorAxis axis_;
  int64_t layer_;
  int64_t query_size_;  // of this rank, as all sizes here
  int64_t kv_size_;
  AttentionShape shape_;
  Norm norm_;
  Linear qkv_;
  std::optional<Norm> query_norm_;
  std::optional<Norm> key_norm_;
  Linear output_;
  std::optional<Norm> post_norm_;
  Tensor rope_table_;
  bool text_positions_ = false;
};

}  // namespace ftune
