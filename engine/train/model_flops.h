// What a step's real tokens take in floating-point operations, a multiply-add counting two: the products of
// forward, of the gradients that are passed on and of those of the weights, and attention's pairs. It is a
// function of the model and the batch alone: what ranks repeat, what fills a pack, and what is recomputed
// does not count; neither do element-wise work, an optimizer's products and the norms of DoRA.
#pragma once

#include <cstdint>
#include <map>

#include "data/loader/batch.h"
#include "engine/model/model.h"

namespace ftune {

class ModelFlops {
 public:
  // Of the blocks that are here. Nothing below the block of this number is trained.
  ModelFlops(Model& model, size_t first_trainable);

  // Of training on one batch. The sum over the batches of a global batch is the same however that is cut.
  double Of(const Batch& batch) const;

 private:
  void AddEmbedding(const Block& block);
  // `passes_on`: whether something before the block is trained.
  void AddDecoder(const ModelConfig& config, const Block& block, bool differentiated, bool passes_on);
  void AddHead(Model& model, const Block& head);

  double each_token_ = 0;
  double each_trained_token_ = 0;
  std::map<int64_t, double> each_pair_;  // of a query and a key that it sees, by the layers' window
};

}  // namespace ftune
