#include "engine/train/model_flops.h"

#include <algorithm>
#include <string>

#include "base/strings.h"
#include "engine/adapter/lora_names.h"

namespace ftune {
namespace {

// Of one product with the matrix, a token.
double Product(const Parameter& matrix) { return 2.0 * static_cast<double>(matrix.global_size()); }

bool IsMatrix(const Parameter& p) { return p.shape.size() == 2; }

bool IsOf(const Parameter& p, const std::string& prefix, std::string_view module) {
  return !module.empty() && p.name.starts_with(StrCat(prefix, module, "."));
}

}  // namespace

ModelFlops::ModelFlops(Model& model, size_t first_trainable) {
  for (const LocalStage& stage : model.stages()) {
    for (size_t i = stage.begin; i < stage.end; ++i) {
      const Block& block = *model.blocks()[i];
      if (block.hidden()) {
        AddDecoder(model.config(), block, block.number() >= first_trainable,
                   block.number() > first_trainable);
      } else if (model.is_head(i)) {
        AddHead(model, block);
      } else {
        AddEmbedding(block);
      }
    }
  }
}

void ModelFlops::AddEmbedding(const Block& block) {
  // Rows are looked up, which is no product; those of an adapter are then multiplied by its B.
  for (const Parameter& p : block.store().parameters()) {
    if (p.name.ends_with(kLoraEmbeddingB)) each_token_ += 3 * Product(p);
  }
}

void ModelFlops::AddDecoder(const ModelConfig& config, const Block& block, bool differentiated,
                            bool passes_on) {
  const auto layer = static_cast<int64_t>(block.number()) - 1;
  const ModuleNames& names = config.architecture->names;
  const std::string prefix = LayerPrefix(config, layer);
  const auto& parameters = block.store().parameters();
  // What reads the block's input has a use for its gradient only where somebody takes it.
  const bool gradient_of_input =
      passes_on || std::any_of(parameters.begin(), parameters.end(), [&](const Parameter& p) {
        return p.trainable && IsOf(p, prefix, names.attention_norm);
      });
  const auto reads_input = [&](const Parameter& p) {
    if (p.name.ends_with(kLoraB)) return false;  // that reads what A made
    return IsOf(p, prefix, names.query) || IsOf(p, prefix, names.key) || IsOf(p, prefix, names.value) ||
           IsOf(p, prefix, names.fused_qkv);
  };
  for (const Parameter& p : parameters) {
    if (!IsMatrix(p)) continue;
    int products = 1;
    if (differentiated && (gradient_of_input || !reads_input(p))) ++products;
    if (p.trainable) ++products;
    each_token_ += products * Product(p);
  }
  // Scores and sums of values; in backward both again, each with respect to both factors.
  const double products = differentiated ? 6 : 2;
  const int64_t window = config.layer_window.empty() ? 0 : config.layer_window[layer];
  each_pair_[window] += products * 2.0 * static_cast<double>(config.num_heads * config.head_dim);
}

void ModelFlops::AddHead(Model& model, const Block& head) {
  const auto add = [this](const Parameter& p) {
    if (IsMatrix(p)) each_trained_token_ += (p.trainable ? 3 : 2) * Product(p);
  };
  for (const Parameter& p : head.store().parameters()) add(p);
  if (model.config().tied_head) {
    add(*model.Find(StrCat(model.config().architecture->names.embedding, ".weight")));
  }
}

double ModelFlops::Of(const Batch& batch) const {
  std::vector<AttentionSegment> attending;
  for (const Segment& s : batch.segments) {
    if (batch.Trains(s)) attending.push_back({s.begin, s.length, s.begin, s.length});
  }
  double flops = each_token_ * static_cast<double>(batch.used_tokens) +
                 each_trained_token_ * static_cast<double>(batch.trained_tokens);
  for (const auto& [window, each] : each_pair_) flops += each * AttentionPairs(attending, window);
  return flops;
}

}  // namespace ftune
