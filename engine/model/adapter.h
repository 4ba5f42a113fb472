// What an adapter is to the layer that it sits on. Its parameters are declared in the block's store when it
// is made. Its BackwardWeight uses no parameter's value, only what `saved` keeps: the second half of backward
// needs nothing gathered.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/context.h"
#include "engine/model/parameter_store.h"
#include "engine/model/tensor_axis.h"

namespace ftune {

struct LinearPart {
  std::string
      module;  // "model.layers.0.self_attn.q_proj"; its parameters are <module>.weight and <module>.bias
  Dimension outputs = 0;
  bool bias = false;
};

struct LinearSite {
  std::vector<LinearPart> parts;
  Dimension inputs = 0;
  bool transposed = false;  // weights are stored [in, out] (GPT-2's Conv1D), not [out, in]
  bool head = false;        // of the language model: not one of the decoder's linears
  TensorAxis axis = {};     // over which either the parts' outputs are cut or the inputs, or nothing

  bool outputs_cut() const { return parts.front().outputs.sharded(); }
  bool inputs_cut() const { return inputs.sharded(); }
  // What the gradients of weights and of what adapters add to them are sums over: each rank has terms of its
  // own outputs, or inputs.
  Placement terms() const {
    return outputs_cut() || inputs_cut() ? Placement::Shard(1) : Placement::Replicate();
  }
};

struct EmbeddingSite {
  std::string module;  // "model.embed_tokens"
  Dimension vocabulary = 0;
  int64_t hidden_size = 0;
  TensorAxis axis = {};

  Placement terms() const { return vocabulary.sharded() ? Placement::Shard(0) : Placement::Replicate(); }
};

// What an adapter keeps of one layer between forward and backward.
struct AdapterSaved {
  Tensor low;       // [tokens, ranks]: the input's projection
  Tensor dlow;      // its gradient
  Tensor product;   // DoRA: [tokens, out]: what the magnitudes scale
  Tensor dproduct;  // DoRA: its gradient
};

// Over the tensor axis all tensors are this rank's slices. Where inputs are cut, products are its terms of
// the sum over the ranks; where outputs are, gradients of inputs are.
class LinearAdapter {
 public:
  virtual ~LinearAdapter() = default;
  // `weights`: the base's, one a part, as they are stored.
  virtual void Bind(const std::vector<Tensor>& weights) = 0;
  // See Block::Refresh.
  virtual void Refresh(Backend&, Stream) {}

  // Whether Forward only adds to the product, which may then have other terms already.
  virtual bool only_adds() const { return true; }
  // `y` holds x Wᵀ of all parts, without bias, and becomes what the adapter makes of it. `saved` may be null.
  virtual void Forward(const Context& context, const Tensor& x, const Tensor& y,
                       AdapterSaved* saved) const = 0;
  // What Forward keeps for backward, where nobody needs the product. False: Forward must be called.
  virtual bool ForwardSavedOnly(const Context& context, const Tensor& x, AdapterSaved* saved) const = 0;
  // The gradient of the base's product x Wᵀ.
  virtual Tensor BackwardProduct(const Context&, const Tensor& dy, AdapterSaved&) const { return dy; }
  // dx += the adapter's share, where dx is defined; keeps in `saved` what BackwardWeight needs. Follows
  // BackwardProduct.
  virtual void BackwardInput(const Context& context, const Tensor& dy, const Tensor& dx,
                             AdapterSaved& saved) const = 0;
  virtual void BackwardWeight(const Context& context, const Tensor& dy, const Tensor& x,
                              const AdapterSaved& saved) const = 0;
};

class EmbeddingAdapter {
 public:
  virtual ~EmbeddingAdapter() = default;
  virtual void Bind(const Tensor& table) = 0;  // the base's, [vocab, hidden]
  virtual void Refresh(Backend&, Stream) {}
  // `y` holds the rows of the base's table, zeros where the rank does not hold them, and becomes what the
  // adapter makes of them: the rank's term of the sum. `saved` may be null.
  virtual void Forward(const Context& context, const Tensor& y, AdapterSaved* saved) const = 0;
  // Adds to the adapter's gradients.
  virtual void Backward(const Context& context, const Tensor& dy, AdapterSaved& saved) const = 0;
};

// Each may be empty, and gives null where nothing of the site is to be adapted.
struct AdapterFactories {
  std::function<std::unique_ptr<LinearAdapter>(const LinearSite&, ParameterStore&)> linear;
  std::function<std::unique_ptr<EmbeddingAdapter>(const EmbeddingSite&, ParameterStore&)> embedding;
};

}  // namespace ftune
