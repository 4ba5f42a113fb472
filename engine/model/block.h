// A block: embedding, decoder layer or head. It is where a pipeline cuts, what activation checkpointing
// recomputes, what ZeRO-3 gathers and what the planner lists. Backward comes in two halves, so that a
// schedule may run the second later or, where nothing is trained, not at all.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "engine/model/adapter.h"
#include "engine/model/context.h"
#include "engine/model/parameter_store.h"

namespace ftune {

// The activations that a block keeps for one microbatch, owned by (block, microbatch). Slots are numbered by
// the block.
struct Saved {
  static constexpr int kSlots = 28;
  std::array<Tensor, kSlots> slots;
  std::array<AdapterSaved, 4> adapters;

  Tensor& operator[](int slot) { return slots[slot]; }
  const Tensor& operator[](int slot) const { return slots[slot]; }
  void Clear() { *this = Saved(); }
};

// Whether a decoder block recomputes in backward what it could have kept.
enum class Keep {
  kAll,
  kProducts,  // matrix products only; norms, activation functions and attention are recomputed
};

class Block {
 public:
  explicit Block(const TensorAxis& axis) : store_(axis.position()) {}
  virtual ~Block() = default;

  ParameterStore& store() { return store_; }
  const ParameterStore& store() const { return store_; }

  // In the whole model, of which a rank may have a part: 0 is the embedding, the last one the head.
  size_t number() const { return number_; }
  void set_number(size_t number) { number_ = number; }

  // A layer between embedding and head: Muon is for its matrices.
  virtual bool hidden() const { return false; }
  // All its parameters are those of another rank's block, held here too (TiedWeightBlock).
  virtual bool copy() const { return false; }
  // Whether backward reads values of parameters, and not only what forward saved.
  virtual bool backward_reads_values() const { return true; }
  // Whether the second half does: those of adapters.
  virtual bool backward_weight_reads_values() const { return false; }

  // After the store is allocated: takes the views that the layers use.
  virtual void Bind() {}
  // Makes what layers derive from the values of weights (DoRA's norms). Called before a forward whenever
  // weights may have changed since the last one.
  virtual void Refresh(Backend&, Stream) {}

  // x [tokens, hidden] → y, under sequence parallelism this rank's rows of both. `saved`, where given, is
  // filled with what backward needs. Where `output_needed` is false (recomputation), the products that only
  // make y may be left out and y is undefined.
  virtual Tensor Forward(const Context& context, const Tensor& x, Saved* saved, bool output_needed) = 0;

  // dy → dx, undefined unless `dx_needed`. `dy` may be overwritten. With `with_weights` the parameters'
  // gradients are added at once; otherwise `saved` then holds what BackwardWeight needs.
  virtual Tensor BackwardInput(const Context& context, const Tensor& dy, Saved& saved, bool dx_needed,
                               bool with_weights) = 0;
  virtual void BackwardWeight(const Context& context, Saved& saved) = 0;

 private:
  ParameterStore store_;
  size_t number_ = 0;
};

}  // namespace ftune
