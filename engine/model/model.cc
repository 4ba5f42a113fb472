#include "engine/model/model.h"

#include "engine/model/rope_table.h"

namespace ftune {

Model::Model(Backend& backend, Stream stream, const ModelConfig& config, const ParameterPolicy& policy,
             int64_t max_length)
    : config_(config) {
  auto embedding = std::make_unique<EmbeddingBlock>(config, policy);
  const EmbeddingBlock* embedding_block = embedding.get();
  blocks_.push_back(std::move(embedding));
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    auto decoder = std::make_unique<DecoderBlock>(config, layer, policy);
    decoders_.push_back(decoder.get());
    blocks_.push_back(std::move(decoder));
  }
  auto head = std::make_unique<HeadBlock>(config, policy, embedding_block);
  head_ = head.get();
  blocks_.push_back(std::move(head));

  for (auto& block : blocks_) block->store().Allocate(backend);
  const Tensor rope_table = MakeRopeTable(backend, stream, config.rope, config.head_dim, max_length);
  for (DecoderBlock* decoder : decoders_) decoder->set_rope_table(rope_table);
  BindAll();
}

void Model::BindAll() {
  for (auto& block : blocks_) block->Bind();
}

void Model::set_keep(Keep keep) {
  for (DecoderBlock* decoder : decoders_) decoder->set_keep(keep);
}

void Model::Refresh(Backend& backend, Stream stream) {
  for (auto& block : blocks_) block->Refresh(backend, stream);
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
