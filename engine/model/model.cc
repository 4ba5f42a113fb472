#include "engine/model/model.h"

namespace ftune {

Model::Model(Backend& backend, Stream stream, const ModelConfig& config, const ParameterPolicy& policy,
             int64_t max_length, const TensorAxis& axis, ValueMemory memory)
    : config_(config), axis_(axis) {
  auto embedding = std::make_unique<EmbeddingBlock>(config, axis, policy);
  const EmbeddingBlock* embedding_block = embedding.get();
  blocks_.push_back(std::move(embedding));
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    auto decoder = std::make_unique<DecoderBlock>(config, layer, axis, policy);
    decoders_.push_back(decoder.get());
    blocks_.push_back(std::move(decoder));
  }
  auto head = std::make_unique<HeadBlock>(config, axis, policy, embedding_block);
  head_ = head.get();
  blocks_.push_back(std::move(head));

  for (auto& block : blocks_) {
    block->store().LayOut();
    if (memory == ValueMemory::kOwn) block->store().Allocate(backend);
  }
  MakeRopeTables(backend, stream, max_length);
  if (memory == ValueMemory::kOwn) BindAll();
}

void Model::MakeRopeTables(Backend& backend, Stream stream, int64_t max_length) {
  if (!config_.architecture->names.positions.empty()) return;
  const auto table = [&](const RopeConfig& rope) {
    return MakeRopeTable(backend, stream, rope, config_.RotaryDim(), max_length);
  };
  // Local layers see few keys: their positions are never scaled by the text's length.
  positions_ = PlanPositions(config_.rope, config_.RotaryDim(), max_length);
  Tensor global, local;
  for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
    switch (config_.RopeOf(layer)) {
      case LayerRope::kNone:
        break;
      case LayerRope::kGlobal:
        if (positions_.per_text) {
          decoders_[layer]->use_text_positions();
          break;
        }
        if (!global.defined()) global = table(config_.rope);
        decoders_[layer]->set_rope_table(global);
        break;
      case LayerRope::kLocal:
        if (!local.defined()) local = table(config_.local_rope);
        decoders_[layer]->set_rope_table(local);
        break;
    }
  }
}

void Model::BindAll() {
  for (auto& block : blocks_) block->Bind();
}

void Model::set_keep(Keep keep) {
  for (DecoderBlock* decoder : decoders_) decoder->set_keep(keep);
}

void Model::Refresh(Backend& backend, Stream stream) {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const BlockUse use(hooks(), i);
    blocks_[i]->Refresh(backend, stream);
  }
}

void Model::AllocateGradients(Backend& backend, Stream stream) {
  for (auto& block : blocks_) block->store().AllocateGradients(backend, stream);
  BindAll();
}

std::vector<Parameter*> Model::parameters() {
  std::vector<Parameter*> all;
  for (auto& block : blocks_) {
    for (Parameter& p : block->store().parameters()) all.push_back(&p);
  }
  return all;
}

std::vector<const Parameter*> Model::parameters() const {
  std::vector<const Parameter*> all;
  for (const auto& block : blocks_) {
    for (const Parameter& p : std::as_const(*block).store().parameters()) all.push_back(&p);
  }
  return all;
}

Parameter* Model::Find(std::string_view name) {
  for (Parameter* p : parameters()) {
    if (p->name == name) return p;
  }
  return nullptr;
}

}  // namespace ftune
