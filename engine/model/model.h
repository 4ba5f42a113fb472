// A decoder-only transformer as a list of blocks: embedding, decoder layers, head.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/model/block.h"
#include "engine/model/block_hooks.h"
#include "engine/model/config.h"
#include "engine/model/decoder_block.h"
#include "engine/model/embedding_block.h"
#include "engine/model/head_block.h"
#include "engine/model/model_part.h"
#include "engine/model/rope_table.h"

namespace ftune {

// Where the values of a model's parameters are.
enum class ValueMemory {
  kOwn,     // whole, in memory that the model allocates
  kPlaced,  // in memory that its stores are given before they are used (ModelShards)
};

// A run of a model's blocks() that one action of a pipeline's schedule works on.
struct LocalStage {
  int stage = 0;
  size_t begin = 0, end = 0;  // of blocks()
};

class Model {
 public:
  // Declares the parameters, of which each rank of the tensor axis holds its slice; their values are
  // undefined until loaded. Positions up to `max_length` can be used. The axis can split the model (see
  // CheckTensorSplit). Only the blocks of `part` are here, and where that has a tied head without the
  // embedding, another home of the weight.
  Model(Backend& backend, Stream stream, const ModelConfig& config, const ParameterPolicy& policy,
        int64_t max_length, const TensorAxis& axis = {}, ValueMemory memory = ValueMemory::kOwn,
        const ModelPart& part = {});
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ModelConfig& config() const { return config_; }
  const TensorAxis& tensor_axis() const { return axis_; }
  // Those that are here, in order. Others know a block by its place in this list.
  std::vector<std::unique_ptr<Block>>& blocks() { return blocks_; }
  const std::vector<std::unique_ptr<Block>>& blocks() const { return blocks_; }
  const std::vector<LocalStage>& stages() const { return stages_; }
  // Of the whole model.
  size_t total_blocks() const { return static_cast<size_t>(config_.num_layers) + 2; }
  bool is_head(size_t block) const { return blocks_[block]->number() + 1 == total_blocks(); }
  // The block whose weight this one uses besides its own: that of a tied head.
  std::optional<size_t> lender(size_t block) const;
  // The head is tied to a weight that another rank's embedding has too.
  bool tied_across() const { return tied_across_; }
  // The last of the blocks, which is here.
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
  void MakeBlocks(const ParameterPolicy& policy, const ModelPart& part);
  void MakeRopeTables(Backend& backend, Stream stream, int64_t max_length);

  ModelConfig config_;
  TensorAxis axis_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<LocalStage> stages_;
  std::vector<DecoderBlock*> decoders_;  // by layer; null elsewhere
  HeadBlock* head_ = nullptr;
  bool tied_across_ = false;
  PositionPlan positions_;
  BlockHooks no_hooks_;
  BlockHooks* hooks_ = &no_hooks_;
};

}  // namespace ftune
