#include "engine/shard/model_shards.h"

#include <cassert>
#include <utility>

#include "base/error.h"
#include "engine/shard/cut.h"

namespace ftune {
absl::StatusOr<std::unique_ptr<ModelShards>> ModelShards::Create(Backend& backend, Stream stream,
                                                                 Model& model, Mesh& mesh,
                                                                 const ShardOptions& options,
                                                                 const OptimizerOptions& optimizer) {
  std::unique_ptr<ModelShards> shards(new ModelShards(backend, stream, model, mesh));
  FTUNE_RETURN_IF_ERROR(shards->Init(options, optimizer, true));
  return shards;
}

std::unique_ptr<ModelShards> ModelShards::Single(Backend& backend, Stream stream, Model& model) {
  auto mesh = std::make_unique<Mesh>();
  std::unique_ptr<ModelShards> shards(new ModelShards(backend, stream, model, *mesh));
  shards->own_mesh_ = std::move(mesh);
  // One rank asks nothing of anybody.
  [[maybe_unused]] const absl::Status status = shards->Init(ShardOptions(), OptimizerOptions(), false);
  assert(status.ok());
  return shards;
}

ModelShards::~ModelShards() {
  if (&model_.hooks() == this) model_.set_hooks(nullptr);
}

absl::Status ModelShards::Init(const ShardOptions& options, const OptimizerOptions& optimizer,
                               bool place_values) {
  FTUNE_ASSIGN_OR_RETURN(groups_, DataGroups::Create(*mesh_, options));
  if (mesh_->shape().pipeline > 1) {
    const bool has_head = model_.is_head(model_.blocks().size() - 1);
    const int64_t claim = has_head ? mesh_->rank() : mesh_->shape().ranks();
    FTUNE_ASSIGN_OR_RETURN(const int64_t least, mesh_->world().AllReduce(-claim, ReduceOp::kMax));
    head_rank_ = static_cast<int>(-least);
  }
  Communicator& group = groups_.shards();
  // Before anybody looks at places.
  if (place_values && options.zero == 3 && group.size() > 1) {
    for (const auto& block : model_.blocks()) block->store().LayOut(options.persistence_threshold);
  }
  FTUNE_ASSIGN_OR_RETURN(tensor_sums_, TensorSums::Create(*mesh_, model_));
  FTUNE_ASSIGN_OR_RETURN(tied_sum_, TiedSum::Create(*mesh_, model_));
  const UpdateRules rules = MakeRules(optimizer);
  std::vector<std::vector<int64_t>> cuts;
  for (const auto& block : model_.blocks()) cuts.push_back(CutTrainable(*block, rules, group.size()));
  if (place_values) {
    values_ = std::make_unique<ShardedValues>(backend_, stream_, model_, group, options, cuts);
    FTUNE_RETURN_IF_ERROR(values_->Allocate());
  }
  for (const auto& block : model_.blocks()) {
    std::vector<FlatRange>& counted = counted_.emplace_back();
    if (block->copy()) continue;  // counted by the other home
    for (const FlatRange& range : CountedRangesOf(block->store())) {
      const FlatRange part = Intersect(range, block->store().owned());
      if (part.count > 0) counted.push_back(part);
    }
  }
  gradients_ = std::make_unique<ShardedGradients>(backend_, stream_, model_, groups_, tensor_sums_, tied_sum_,
                                                  options, std::move(cuts));
  model_.set_hooks(this);
  return absl::OkStatus();
}

absl::Status ModelShards::AllocateGradients() { return gradients_->Allocate(); }

absl::Status ModelShards::status() const {
  FTUNE_RETURN_IF_ERROR(mesh_->status());
  FTUNE_RETURN_IF_ERROR(groups_.status());
  FTUNE_RETURN_IF_ERROR(tied_sum_.status());
  return tensor_sums_.status();
}

CommTraffic ModelShards::traffic() const {
  CommTraffic total = mesh_->traffic();
  total += groups_.traffic();
  total += tensor_sums_.traffic();
  total += tied_sum_.traffic();
  return total;
}

void ModelShards::BeginStep() { gradients_->BeginStep(); }

absl::Status ModelShards::FinishGradients() {
  gradients_->Finish();
  return status();
}

void ModelShards::PublishValues() {
  if (values_) values_->Publish();
}

void ModelShards::SettleValues() {
  if (values_) values_->Settle();
}

void ModelShards::AddSquares(const Tensor& sum) {
  for (size_t i = 0; i < counted_.size(); ++i) {
    const ParameterStore& store = model_.blocks()[i]->store();
    for (const FlatRange& part : counted_[i]) {
      backend_.SumSquares(stream_, store.owned_gradients().Cols(part.begin - store.owned().begin, part.count),
                          sum);
    }
  }
}

void ModelShards::SumOverShards(const Tensor& value) {
  groups_.shards().Run(Call::AllReduce(BufferOf(stream_, value))).IgnoreError();
  mesh_->axis(MeshAxis::kTensor).Run(Call::AllReduce(BufferOf(stream_, value))).IgnoreError();
  mesh_->axis(MeshAxis::kPipeline).Run(Call::AllReduce(BufferOf(stream_, value))).IgnoreError();
}

void ModelShards::SumOverBatch(const Tensor& value) {
  mesh_->axis(MeshAxis::kData).Run(Call::AllReduce(BufferOf(stream_, value))).IgnoreError();
  mesh_->axis(MeshAxis::kPipeline).Run(Call::AllReduce(BufferOf(stream_, value))).IgnoreError();
}

std::vector<double> ModelShards::SumOverShards(const std::vector<double>& of_ranks) const {
  const MeshShape& shape = mesh_->shape();
  const std::vector<double> sums = SumOverAxis(shape, MeshAxis::kData, of_ranks, groups_.shards().size());
  return SumOverAxis(shape, MeshAxis::kPipeline, SumOverAxis(shape, MeshAxis::kTensor, sums));
}

std::vector<double> ModelShards::SumOverBatch(const std::vector<double>& of_ranks) const {
  const MeshShape& shape = mesh_->shape();
  return SumOverAxis(shape, MeshAxis::kPipeline, SumOverAxis(shape, MeshAxis::kData, of_ranks));
}

int64_t ModelShards::AgreeOn(int64_t value) {
  return mesh_->world().AllReduce(value, ReduceOp::kMax).value_or(value);
}

int64_t ModelShards::FromHead(int64_t value) {
  const Buffer buffer = {reinterpret_cast<std::byte*>(&value), 1, DType::kI64, stream_};
  mesh_->world().Run(Call::Broadcast(buffer, head_rank_)).IgnoreError();
  return value;
}

void ModelShards::Use(size_t block) {
  if (const std::optional<size_t> lender = model_.lender(block)) values_->BeforeUse(*lender);
  values_->BeforeUse(block);
}

void ModelShards::BeforeUse(size_t block, std::optional<size_t> next) {
  if (!values_) return;
  Use(block);
  if (next) values_->Prefetch(*next);
}

void ModelShards::AfterUse(size_t block) {
  if (!values_) return;
  if (const std::optional<size_t> lender = model_.lender(block)) values_->AfterUse(*lender);
  values_->AfterUse(block);
}

void ModelShards::BeforeFill(size_t block) {
  if (!values_) return;
  if (const std::optional<size_t> lender = model_.lender(block)) values_->BeforeUse(*lender);
  values_->BeforeFill(block);
}

void ModelShards::AfterChange(size_t block) {
  if (values_) values_->AfterChange(block);
}

void ModelShards::BeforeGradients(size_t block) {
  const std::optional<size_t> lender = model_.lender(block);
  if (lender && model_.blocks()[*lender]->store().has_trainable()) gradients_->Before(*lender);
  if (model_.blocks()[block]->store().has_trainable()) gradients_->Before(block);
}

void ModelShards::AfterGradients(size_t block, bool last) {
  if (model_.blocks()[block]->store().has_trainable()) gradients_->After(block, last);
}

}  // namespace ftune
