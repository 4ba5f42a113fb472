#include "engine/optim/optimizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ftune {
namespace {

Tensor ViewOf(const Tensor& piece, const PieceTensor& tensor) {
  return Tensor(piece.storage(), piece.offset() + tensor.offset, tensor.dtype, 1, tensor.size);
}

// Both contiguous, of one type and size.
void CopyBits(Backend& backend, Stream stream, const Tensor& from, const Tensor& to) {
  if (!backend.computes() || from.size() == 0) return;
  backend.Upload(stream, {from.bytes(), static_cast<size_t>(BytesFor(from.dtype(), from.size()))}, to);
}

}  // namespace

Optimizer::Optimizer(Backend& backend, Model& model, const OptimizerOptions& options)
    : backend_(backend), options_(options), rules_(MakeRules(options)) {
  const auto& blocks = model.blocks();
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i]->store().owned().count == 0) continue;
    shards_.push_back(LayOutShard(*blocks[i], blocks[i]->number(), rules_, options_));
  }
}

Optimizer::Optimizer(Backend& backend, Stream stream, Model& model, const OptimizerOptions& options)
    : Optimizer(backend, model, options) {
  for (const Shard& shard : shards_) {
    FlatState& flat = flat_.emplace_back();
    if (shard.master) {
      const Tensor& values = shard.store->owned_values();
      flat.master = backend.Allocate(1, values.size(), Category::kOptimizer);
      backend.Convert(stream, values, flat.master);
    }
    for (const StateSpec& spec : shard.state) {
      flat.state.push_back(backend.Allocate(spec.dtype, 1, spec.size, Category::kOptimizer));
      backend.Zero(stream, flat.state.back());
    }
  }
}

absl::StatusOr<std::unique_ptr<Optimizer>> Optimizer::CreateOffloaded(Backend& backend, Stream stream,
                                                                      Model& model,
                                                                      const OptimizerOptions& options,
                                                                      const OffloadOptions& offload) {
  std::unique_ptr<Optimizer> optimizer(new Optimizer(backend, model, options));
  optimizer->pieces_ = CutIntoPieces(optimizer->shards_, offload.piece_bytes);
  // An optimizer that keeps nothing has nothing to move.
  if (optimizer->pieces_.empty()) return std::make_unique<Optimizer>(backend, stream, model, options);
  FTUNE_RETURN_IF_ERROR(optimizer->MoveToDisk(stream, offload));
  return optimizer;
}

absl::Status Optimizer::MoveToDisk(Stream stream, const OffloadOptions& offload) {
  std::vector<int64_t> bytes;
  for (const Piece& piece : pieces_) bytes.push_back(piece.bytes);
  FTUNE_ASSIGN_OR_RETURN(disk_, StateDisk::Create(backend_, offload.disk, bytes));
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Shard& shard = *pieces_[i].shard;
    if (!shard.master) continue;  // all zero, as a new file is
    FTUNE_RETURN_IF_ERROR(disk_->Fill(i, [&](const Tensor& memory) {
      backend_.Zero(stream, memory);
      for (const PiecePart& part : pieces_[i].parts) {
        backend_.Convert(stream, shard.store->owned_values().Cols(part.begin - shard.range.begin, part.count),
                         ViewOf(memory, part.tensors.front()));
      }
      backend_.Synchronize(stream);
    }));
  }
  return absl::OkStatus();
}

absl::Status Optimizer::Step(Backend& backend, Stream stream, float learning_rate,
                             const Tensor& gradient_scale) {
  ++updates_;
  if (disk_) return StepOnDisk(backend, stream, learning_rate, gradient_scale);
  for (size_t i = 0; i < shards_.size(); ++i) {
    for (const ShardRun& run : shards_[i].runs) {
      const auto [begin, count] = std::pair(run.group.begin, run.group.count);
      std::vector<Tensor> state;
      for (const StatePlace& place : run.state) {
        state.push_back(flat_[i].state[place.tensor].Cols(place.offset, place.size));
      }
      const Tensor master =
          shards_[i].master ? flat_[i].master.Cols(begin - shards_[i].range.begin, count) : Tensor();
      Update(backend, stream, shards_[i], run, begin, count, master, std::move(state), learning_rate,
             gradient_scale);
    }
  }
  return absl::OkStatus();
}

std::vector<Tensor> Optimizer::Changing() const {
  std::vector<Tensor> all;
  for (size_t i = 0; i < shards_.size(); ++i) {
    all.push_back(shards_[i].store->owned_values());
    if (shards_[i].master) all.push_back(flat_[i].master);
    all.insert(all.end(), flat_[i].state.begin(), flat_[i].state.end());
  }
  return all;
}

OptimizerBackup Optimizer::AllocateBackup(Backend& backend) const {
  OptimizerBackup backup;
  for (const Tensor& tensor : Changing()) {
    backup.tensors.push_back(backend.Allocate(tensor.dtype(), 1, tensor.size(), Category::kOptimizer));
  }
  return backup;
}

void Optimizer::Save(Backend& backend, Stream stream, OptimizerBackup& backup) const {
  const std::vector<Tensor> changing = Changing();
  for (size_t i = 0; i < changing.size(); ++i) CopyBits(backend, stream, changing[i], backup.tensors[i]);
  backup.updates = updates_;
}

void Optimizer::Restore(Backend& backend, Stream stream, const OptimizerBackup& backup) {
  const std::vector<Tensor> changing = Changing();
  for (size_t i = 0; i < changing.size(); ++i) CopyBits(backend, stream, backup.tensors[i], changing[i]);
  updates_ = backup.updates;
}

absl::Status Optimizer::StepOnDisk(Backend& backend, Stream stream, float learning_rate,
                                   const Tensor& gradient_scale) {
  for (const Piece& piece : pieces_) {
    FTUNE_ASSIGN_OR_RETURN(const Tensor memory, disk_->Acquire());
    for (const PiecePart& part : piece.parts) {
      std::vector<Tensor> state;
      for (const PieceTensor& tensor : part.tensors) state.push_back(ViewOf(memory, tensor));
      Tensor master;
      if (piece.shard->master) {
        master = state.front();
        state.erase(state.begin());
      }
      Update(backend, stream, *piece.shard, *part.run, part.begin, part.count, master, std::move(state),
             learning_rate, gradient_scale);
    }
    backend.Synchronize(stream);
    FTUNE_RETURN_IF_ERROR(disk_->Release());
  }
  return absl::OkStatus();
}

void Optimizer::Update(Backend& backend, Stream stream, const Shard& shard, const ShardRun& run,
                       int64_t begin, int64_t count, const Tensor& master, std::vector<Tensor> state,
                       float learning_rate, const Tensor& gradient_scale) const {
  const int64_t place = begin - shard.range.begin;
  const Tensor values = shard.store->owned_values().Cols(place, count);
  const bool has_master = master.defined();
  run.rule->Update(backend, stream,
                   {.first = run.first,
                    .update = {.weights = has_master ? master : values,
                               .low = has_master ? values : Tensor(),
                               .gradients = shard.store->owned_gradients().Cols(place, count),
                               .gradient_scale = gradient_scale,
                               .learning_rate = static_cast<float>(learning_rate * run.group.lr_factor),
                               .weight_decay = run.group.weight_decay,
                               .draws = {.seed = options_.seed,
                                         .step = static_cast<uint64_t>(updates_),
                                         .site = shard.site,
                                         .first = begin}},
                    .state = std::move(state),
                    .step = updates_});
}

Optimizer::Placed Optimizer::Find(const Parameter& parameter) const {
  for (const Shard& shard : shards_) {
    for (const PlacedParameter& placed : shard.parameters) {
      if (placed.parameter == &parameter) return {&shard, &placed};
    }
  }
  return {};
}

std::vector<StateSpec> Optimizer::SpecsOf(const Parameter& parameter) const {
  const auto [shard, placed] = Find(parameter);
  std::vector<StateSpec> specs;
  if (placed == nullptr) return specs;
  if (shard->master) specs.push_back({kMasterName, DType::kF32, placed->part.count});
  for (const StatePlace& place : placed->state) {
    StateSpec spec = shard->state[place.tensor];
    spec.size = place.size;
    specs.push_back(spec);
  }
  return specs;
}

absl::StatusOr<std::vector<NamedTensor>> Optimizer::StateOf(const Parameter& parameter) const {
  const auto [shard, placed] = Find(parameter);
  if (placed == nullptr) return std::vector<NamedTensor>();
  if (disk_) return ReadFromDisk(*placed, *shard);
  const FlatState& flat = flat_[static_cast<size_t>(shard - shards_.data())];
  std::vector<NamedTensor> all;
  if (shard->master) {
    all.push_back({std::string(kMasterName),
                   flat.master.Cols(placed->part.begin - shard->range.begin, placed->part.count)});
  }
  for (const StatePlace& place : placed->state) {
    all.push_back({std::string(shard->state[place.tensor].name),
                   flat.state[place.tensor].Cols(place.offset, place.size)});
  }
  return all;
}

absl::Status Optimizer::ChangeStateOf(
    const Parameter& parameter, const std::function<absl::Status(const std::vector<NamedTensor>&)>& change) {
  const auto [shard, placed] = Find(parameter);
  if (placed == nullptr) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const std::vector<NamedTensor> state, StateOf(parameter));
  FTUNE_RETURN_IF_ERROR(change(state));
  return disk_ ? WriteToDisk(*placed, *shard, state) : absl::OkStatus();
}

absl::StatusOr<std::vector<NamedTensor>> Optimizer::ReadFromDisk(const PlacedParameter& placed,
                                                                 const Shard& shard) const {
  std::vector<NamedTensor> all;
  for (const StateSpec& spec : SpecsOf(*placed.parameter)) {
    all.push_back({std::string(spec.name), backend_.Allocate(spec.dtype, 1, spec.size, Category::kBuffers)});
  }
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (pieces_[i].shard != &shard) continue;
    Tensor memory;
    for (const PiecePart& part : pieces_[i].parts) {
      if (Intersect({part.begin, part.count}, placed.part).count == 0) continue;
      if (!memory.defined()) {
        memory = backend_.Allocate(DType::kU8, 1, disk_->ReadBytes(i), Category::kBuffers);
        FTUNE_RETURN_IF_ERROR(disk_->Read(i, memory));
      }
      CopyPart(memory, part, placed.part, all, Way::kFromPiece);
    }
  }
  return all;
}

absl::Status Optimizer::WriteToDisk(const PlacedParameter& placed, const Shard& shard,
                                    const std::vector<NamedTensor>& state) {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const auto concerned = [&](const PiecePart& part) {
      return Intersect({part.begin, part.count}, placed.part).count > 0;
    };
    const std::vector<PiecePart>& parts = pieces_[i].parts;
    if (pieces_[i].shard != &shard || std::none_of(parts.begin(), parts.end(), concerned)) continue;
    const Tensor before = backend_.Allocate(DType::kU8, 1, disk_->ReadBytes(i), Category::kBuffers);
    FTUNE_RETURN_IF_ERROR(disk_->Read(i, before));
    FTUNE_RETURN_IF_ERROR(disk_->Fill(i, [&](const Tensor& memory) {
      CopyBits(backend_, Stream(), before.Cols(0, std::min(before.size(), memory.size())),
               memory.Cols(0, std::min(before.size(), memory.size())));
      for (const PiecePart& part : parts) {
        if (concerned(part)) CopyPart(memory, part, placed.part, state, Way::kToPiece);
      }
      backend_.Synchronize(Stream());
    }));
  }
  return absl::OkStatus();
}

void Optimizer::CopyPart(const Tensor& memory, const PiecePart& part, const FlatRange& owned,
                         const std::vector<NamedTensor>& state, Way way) const {
  const FlatRange shared = Intersect({part.begin, part.count}, owned);
  for (size_t t = 0; t < part.tensors.size(); ++t) {
    const Tensor piece = ViewOf(memory, part.tensors[t]);
    const Tensor& whole = state[t].tensor;
    // State that is not one value an element is of a parameter that is never cut.
    const bool by_element = whole.size() == owned.count;
    const Tensor inside = by_element ? piece.Cols(shared.begin - part.begin, shared.count) : piece;
    const Tensor outside = by_element ? whole.Cols(shared.begin - owned.begin, shared.count) : whole;
    const bool from_piece = way == Way::kFromPiece;
    CopyBits(backend_, Stream(), from_piece ? inside : outside, from_piece ? outside : inside);
  }
}

absl::StatusOr<Tensor> Optimizer::StateOf(const Parameter& parameter, std::string_view name) const {
  FTUNE_ASSIGN_OR_RETURN(const std::vector<NamedTensor> all, StateOf(parameter));
  for (const NamedTensor& state : all) {
    if (state.name == name) return state.tensor;
  }
  return Tensor();
}

}  // namespace ftune
