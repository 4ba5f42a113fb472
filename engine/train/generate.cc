#include "engine/train/generate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/random.h"
#include "base/strings.h"
#include "engine/model/activations.h"
#include "engine/model/tensor_split.h"
#include "engine/pipeline/forward_pass.h"
#include "engine/pipeline/model_work.h"

namespace ftune {
namespace {

constexpr uint64_t kSamplingPurpose = 0x73616d706c65;  // keeps these draws apart from other uses of the seed

// Of the layers that are here.
std::vector<KvCache> MakeCache(Backend& backend, const Model& model, int64_t length) {
  const int64_t width = KeyDimension(model.config(), model.tensor_axis().position()).local_size();
  std::vector<KvCache> cache(model.config().num_layers);
  for (const auto& block : model.blocks()) {
    if (!block->hidden()) continue;
    KvCache& layer = cache[block->number() - 1];
    layer.keys = backend.Allocate(length, width, Category::kBuffers);
    layer.values = backend.Allocate(length, width, Category::kBuffers);
  }
  return cache;
}

// What the blocks below the head make.
class HiddenRows {
 public:
  // `pipeline` null: the model is whole.
  HiddenRows(Backend& backend, Stream stream, Model& model, Pipeline* pipeline)
      : model_(model),
        own_(pipeline != nullptr ? nullptr : Pipeline::Single(model)),
        work_(backend, stream, model, RecomputePolicy(), model.total_blocks()),
        pass_(backend, stream, model, pipeline != nullptr ? *pipeline : *own_, work_) {}

  // All rows, on every rank that has the head; undefined on the others.
  Tensor Of(const Context& context) {
    const Tensor x = pass_.HiddenStates(context);
    return x.defined() ? Gathered(context, model_.tensor_axis(), x) : x;
  }

 private:
  Model& model_;
  std::unique_ptr<Pipeline> own_;
  ModelWork work_;
  ForwardPass pass_;
};

Tensor Logits(Model& model, const Context& context, const Tensor& hidden) {
  const BlockUse use(model.hooks(), model.blocks().size() - 1);
  return model.head().Logits(context, hidden);
}

std::vector<float> DownloadLogits(Backend& backend, Stream stream, const Tensor& logits) {
  std::vector<float> values(logits.size());
  backend.Download(stream, logits, std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace

int32_t SampleToken(std::vector<float>& logits, const GenerateOptions& options, uint64_t index) {
  if (options.temperature <= 0.0) {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  const double top = logits[order[0]];
  std::vector<double> weights(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    weights[i] = std::exp((logits[order[i]] - top) / options.temperature);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);

  // The smallest set of likeliest tokens that holds top_p of the probability; never empty.
  double nucleus = 0.0;
  size_t kept = 0;
  while (kept < order.size()) {
    nucleus += weights[kept++];
    if (nucleus >= options.top_p * total) break;
  }
  double draw = UniformFloat(Philox(options.seed, index, kSamplingPurpose)[0]) * nucleus;
  for (size_t i = 0; i < kept; ++i) {
    draw -= weights[i];
    if (draw < 0.0) return order[i];
  }
  return order[kept - 1];
}

absl::StatusOr<std::vector<int32_t>> Generate(Backend& backend, Stream stream, Model& model,
                                              int64_t max_length, const std::vector<int32_t>& prompt,
                                              const GenerateOptions& options,
                                              const std::function<bool(int32_t)>& on_token,
                                              Pipeline* pipeline) {
  const int64_t prompt_length = static_cast<int64_t>(prompt.size());
  if (prompt.empty()) {
    return UsageError({.key = "--prompt", .found = "an empty prompt", .expected = "at least one token"});
  }
  const int64_t vocab_size = model.config().vocab_size;
  for (const int32_t id : prompt) {
    if (id >= 0 && id < vocab_size) continue;
    return UsageError({.key = "--prompt",
                       .message = "the model has no embedding for a token of the prompt",
                       .found = StrCat("token id ", id),
                       .expected = StrCat("ids below ", vocab_size, ", the model's vocab_size")});
  }
  if (prompt_length >= max_length) {
    return UsageError({.key = "--prompt",
                       .found = StrCat(prompt_length, " tokens"),
                       .expected = StrCat("fewer than the model's context of ", max_length)});
  }
  const int64_t length = prompt_length + std::min(max_length - prompt_length, options.max_new_tokens);
  std::vector<KvCache> cache = MakeCache(backend, model, length);
  model.Refresh(backend, stream);
  HiddenRows hidden_rows(backend, stream, model, pipeline);

  std::vector<int32_t> fresh = prompt;
  std::vector<int32_t> generated;
  int64_t cached = 0;
  while (prompt_length + static_cast<int64_t>(generated.size()) < length) {
    const DeviceBatch batch = UploadTokens(backend, stream, fresh, cached, length, model.positions());
    const Context context = {
        .backend = backend, .stream = stream, .batch = batch, .cache = &cache, .cached = cached};
    const Tensor hidden = hidden_rows.Of(context);
    cached += static_cast<int64_t>(fresh.size());
    int32_t sampled = 0;
    if (hidden.defined()) {
      std::vector<float> logits =
          DownloadLogits(backend, stream, Logits(model, context, hidden.Rows(hidden.rows() - 1, 1)));
      sampled = SampleToken(logits, options, static_cast<uint64_t>(cached));
    }
    const auto token = static_cast<int32_t>(model.hooks().FromHead(sampled));
    generated.push_back(token);
    fresh = {token};
    if (on_token && !on_token(token)) break;
    if (std::find(options.stop_ids.begin(), options.stop_ids.end(), token) != options.stop_ids.end()) break;
  }
  return generated;
}

std::vector<float> AllLogits(Backend& backend, Stream stream, Model& model, const std::vector<int32_t>& ids) {
  model.Refresh(backend, stream);
  const DeviceBatch batch =
      UploadTokens(backend, stream, ids, 0, static_cast<int64_t>(ids.size()), model.positions());
  const Context context = {.backend = backend, .stream = stream, .batch = batch};
  HiddenRows hidden_rows(backend, stream, model, nullptr);
  const Tensor hidden = hidden_rows.Of(context);
  if (model.hooks().failed()) return {};
  return DownloadLogits(backend, stream, Logits(model, context, hidden));
}

}  // namespace ftune
