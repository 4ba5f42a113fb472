// A model's training state on one rank of a mesh: what of it is here (ZeRO), and the sums and agreements that
// make many ranks train as one.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/optim/rules.h"
#include "engine/shard/data_groups.h"
#include "engine/shard/shard_options.h"
#include "engine/shard/sharded_gradients.h"
#include "engine/shard/sharded_values.h"
#include "engine/shard/tensor_sums.h"
#include "engine/shard/tied_sum.h"
#include "parallel/mesh.h"

namespace ftune {

// All ranks call everything alike, but for what says otherwise.
class ModelShards final : public BlockHooks {
 public:
  // Gives `model`, made with ValueMemory::kPlaced, memory for its values, which are loaded after that, and
  // hooks itself into it. `optimizer` says where parameters can be cut. All but the options outlive it.
  static absl::StatusOr<std::unique_ptr<ModelShards>> Create(Backend& backend, Stream stream, Model& model,
                                                             Mesh& mesh, const ShardOptions& options,
                                                             const OptimizerOptions& optimizer);
  // One rank that has all of a model in the model's own memory.
  static std::unique_ptr<ModelShards> Single(Backend& backend, Stream stream, Model& model);
  ~ModelShards() override;
  ModelShards(const ModelShards&) = delete;
  ModelShards& operator=(const ModelShards&) = delete;

  // Memory for gradients, before the first step; those that the model has of its own stay.
  absl::Status AllocateGradients();

  Mesh& mesh() { return *mesh_; }
  // How the data axis shares out what is here.
  const DataGroups& groups() const { return groups_; }
  // What this rank has sent and called since it began.
  CommTraffic traffic() const;
  // The first error of any group: what all that was computed with them is worth.
  absl::Status status() const override;

  // A step: gradients are zero; then the model's blocks run; then the gradients' sums are where this rank
  // owns them; then, once it has updated what it owns, all have the new values.
  void BeginStep();
  absl::Status FinishGradients();
  void PublishValues();
  // Until what PublishValues began is done: what this rank owns may be changed again.
  void SettleValues();

  // What compressed sums of gradients lack so far (CompressedSums), on which later ones depend; null where
  // sums are not compressed.
  CompressedSums* compressed() const { return gradients_->compressed(); }

  // [1, 1] f64 += Σ g² over what this rank owns; each element of the model is counted on one rank of
  // SumOverShards.
  void AddSquares(const Tensor& sum);
  // [1, 1] f64, in place: over the ranks that share out the model; over those that have a part of the global
  // batch's loss.
  void SumOverShards(const Tensor& value);
  void SumOverBatch(const Tensor& value);
  // The same sums where all ranks know what each of the world has: what they are on each.
  std::vector<double> SumOverShards(const std::vector<double>& of_ranks) const;
  std::vector<double> SumOverBatch(const std::vector<double>& of_ranks) const;
  // The greatest that any rank of the world says; this rank's own where a group has failed.
  int64_t AgreeOn(int64_t value);

  void BeforeUse(size_t block, std::optional<size_t> next) override;
  void AfterUse(size_t block) override;
  void BeforeFill(size_t block) override;
  void AfterChange(size_t block) override;
  void BeforeGradients(size_t block) override;
  void AfterGradients(size_t block, bool last) override;
  int64_t FromHead(int64_t value) override;
  bool failed() const override { return !status().ok(); }

 private:
  ModelShards(Backend& backend, Stream stream, Model& model, Mesh& mesh)
      : backend_(backend), stream_(stream), model_(model), mesh_(&mesh) {}
  absl::Status Init(const ShardOptions& options, const OptimizerOptions& optimizer, bool place_values);
  void Use(size_t block);

  Backend& backend_;
  Stream stream_;
  Model& model_;
  std::unique_ptr<Mesh> own_mesh_;  // of a single rank
  Mesh* mesh_;
  int head_rank_ = 0;  // the first in the world that has the head
  DataGroups groups_;
  TensorSums tensor_sums_;
  TiedSum tied_sum_;
  std::vector<std::vector<FlatRange>> counted_;  // by block: owned elements that SumOverShards counts here
  std::unique_ptr<ShardedValues> values_;        // null: the model's own
  std::unique_ptr<ShardedGradients> gradients_;
};

}  // namespace ftune
