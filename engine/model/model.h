// A decoder-only transformer as a list of blocks: embedding, decoder layers, head.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "engine/model/block.h"
#include "engine/model/block_hooks.h"
#include "engine/model/config.h"
#include "engine/model/decoder_block.h"
#include "engine/model/embedding_block.h"
#include "engine/model/head_block.h"
#include "engine/model/rope_table.h"

namespace ftune {

// Where the values of a model's parameters are.
enum class ValueMemory {
  kOwn,     // whole, in memory that the model allocates
  kPlaced,  // in memory that its stores are given before they are used (ModelShards)
};

class Model {
 public:
  // Declares the parameters, of which each rank of the tensor axis holds its slice; their values are
  // undefined until loaded. Positions up to `max_length` can be used. The axis can split the model (see
  // CheckTensorSplit).
  Model(Backend& backend, Stream stream, const ModelConfig& config, const ParameterPolicy& policy,
        int64_t max_length, const TensorAxis& axis = {}, ValueMemory memory = ValueMemory::kOwn);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ModelConfig& config() const { return config_; }
  const TensorAxis& tensor_axis() const { return axis_; }
  std::vector<std::unique_ptr<Block>>& blocks() { return blocks_; }
  HeadBlock& head() { return *head_; }
  // What batches need to know to name positions.
  const PositionPlan& positions() const { return positions_; }

  void set_keep(Keep keep);
  // Whoever uses a block's values or gradients says so here.
  BlockHooks& hooks() { return *hooks_; }
  // `hooks` outlives the model's uses; null: none.
  void set_hooks(BlockHooks* hooks) { hooks_ = hooks != nullptr ? hooks : &no_hooks_; }

  // See Block::Bind; after memory was placed.
  void BindAll();
  // See Block::Refresh.
  void Refresh(Backend& backend, Stream stream);
  void AllocateGradients(Backend& backend, Stream stream);

  // All parameters, in order of blocks.
  std::vector<Parameter*> parameters();
  std::vector<const Parameter*> parameters() const;
  Parameter* Find(std::string_view name);

 private:
  void MakeRopeTables(Backend& backend, Stream stream, int64_t max_length);

  ModelConfig config_;
  TensorAxis axis_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<DecoderBlock*> decoders_;
  HeadBlock* head_ = nullptr;
  PositionPlan positions_;
  BlockHooks no_hooks_;
  BlockHooks* hooks_ = &no_hooks_;
};

}  // namespace ftune
