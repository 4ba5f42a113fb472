#include "engine/model/model.h"

#include "engine/model/tied_weight_block.h"

namespace ftune {

Model::Model(Backend& backend, Stream stream, const ModelConfig& config, const ParameterPolicy& policy,
             int64_t max_length, const TensorAxis& axis, ValueMemory memory, const ModelPart& part)
    : config_(config), axis_(axis), decoders_(static_cast<size_t>(config.num_layers), nullptr) {
  MakeBlocks(policy, part.empty() ? ModelPart{{.stage = 0, .first = 0, .count = total_blocks()}} : part);
  for (auto& block : blocks_) {
    block->store().LayOut();
    if (memory == ValueMemory::kOwn) block->store().Allocate(backend);
  }
  MakeRopeTables(backend, stream, max_length);
  if (memory == ValueMemory::kOwn) BindAll();
}

void Model::MakeBlocks(const ParameterPolicy& policy, const ModelPart& part) {
  const size_t last = total_blocks() - 1;
  const Parameter* tied = nullptr;
  const auto add = [&](size_t number, std::unique_ptr<Block> block) {
    block->set_number(number);
    blocks_.push_back(std::move(block));
  };
  const bool embeds = part.front().first == 0;
  const bool heads = part.back().first + part.back().count > last;
  tied_across_ = config_.tied_head && embeds != heads;
  if (heads && tied_across_) {
    auto copy = std::make_unique<TiedWeightBlock>(config_, axis_, policy);
    tied = &copy->weight();
    add(0, std::move(copy));
  }
  for (const StageBlocks& stage : part) {
    stages_.push_back({stage.stage, blocks_.size(), blocks_.size() + stage.count});
    for (size_t number = stage.first; number < stage.first + stage.count; ++number) {
      if (number == 0) {
        auto embedding = std::make_unique<EmbeddingBlock>(config_, axis_, policy);
        tied = &embedding->weight();
        add(number, std::move(embedding));
      } else if (number == last) {
        auto head = std::make_unique<HeadBlock>(config_, axis_, policy, tied);
        head_ = head.get();
        add(number, std::move(head));
      } else {
        const size_t layer = number - 1;
        auto decoder = std::make_unique<DecoderBlock>(config_, static_cast<int64_t>(layer), axis_, policy);
        decoders_[layer] = decoder.get();
        add(number, std::move(decoder));
      }
    }
  }
}

std::optional<size_t> Model::lender(size_t block) const {
  return config_.tied_head && is_head(block) ? std::optional<size_t>(0) : std::nullopt;
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
    if (decoders_[layer] == nullptr) continue;
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
  for (DecoderBlock* decoder : decoders_) {
    if (decoder != nullptr) decoder->set_keep(keep);
  }
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
