// Finite-difference checks of each block: the gradient of a weighted sum of its output with respect to its
// input and to a sample of each of its parameters' elements.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "engine/backend/cpu/cpu_workspace.h"
#include "tests/unit/engine/tiny.h"

namespace ftune::testing {
namespace {

constexpr int64_t kTokens = 24;

// One block of a tiny model, with random upstream gradients: the scalar is L = Σ weights * output (+ loss for
// a head).
class BlockProbe {
 public:
  BlockProbe(const TinyOptions& options, size_t block)
      : backend_(MakeCpu()), trainer_(*backend_, options), block_(*trainer_.model->blocks()[block]) {
    batch_ = UploadBatch(*backend_, Stream(), MakeBatch({{10, 14}}, kTokens, 4), trainer_.model->positions());
    trainer_.model->Refresh(*backend_, Stream());
    loss_ = backend_->Allocate(DType::kF64, 1, 1, Category::kBuffers);
    input_ = Random(kTokens, options.config.hidden_size, 1);
    upstream_ = Random(kTokens, options.config.hidden_size, 2);
  }

  // The gradients by the block's own backward.
  void Backward() {
    Saved saved;
    backend_->Zero(Stream(), loss_);
    const Context context = MakeContext();
    block_.Forward(context, input_, &saved, true);
    const Tensor dy = backend_->Allocate(kTokens, upstream_.cols(), Category::kActivations);
    backend_->Convert(Stream(), upstream_, dy);
    dx_ = block_.BackwardInput(context, dy, saved, true, true);
  }

  double Value() {
    if (refresh_) block_.Refresh(*backend_, Stream());
    backend_->Zero(Stream(), loss_);
    const Tensor y = block_.Forward(MakeContext(), input_, nullptr, true);
    double value = 0.0;
    backend_->Download(Stream(), loss_, std::as_writable_bytes(std::span(&value, 1)));
    if (!y.defined()) return value;
    for (int64_t i = 0; i < y.size(); ++i) value += static_cast<double>(y.f32()[i]) * upstream_.f32()[i];
    return value;
  }

  // Compares element `i` of a gradient with the central difference of `element`.
  void Check(float* element, float gradient, double scale) {
    constexpr double kStep = 2e-3;
    const float before = *element;
    *element = static_cast<float>(before + kStep);
    const double above = Value();
    *element = static_cast<float>(before - kStep);
    const double below = Value();
    *element = before;
    const double difference = (above - below) / (2 * kStep);
    INFO("central difference ", difference, ", gradient ", gradient, ", scale ", scale);
    CHECK(std::abs(difference - gradient) <= 5e-3 * scale);
  }

  void CheckTensor(const Tensor& values, const Tensor& gradient) {
    double scale = 0.0;
    for (int64_t i = 0; i < gradient.size(); ++i)
      scale = std::max<double>(scale, std::abs(gradient.f32()[i]));
    CHECK(scale > 0.0);
    RandomSequence random(9, 9);
    for (int n = 0; n < 12; ++n) {
      const int64_t i = static_cast<int64_t>(random.Below(values.size()));
      Check(values.f32() + i, gradient.f32()[i], scale);
    }
  }

  void CheckInput() { CheckTensor(input_, dx_); }
  void CheckParameters() {
    for (Parameter& p : block_.store().parameters()) {
      if (!p.trainable) continue;
      CAPTURE(p.name);
      // DoRA's norms are constants to A and B, and do not depend on the magnitudes.
      refresh_ = p.name.ends_with(kLoraMagnitude);
      CheckTensor(p.value, p.gradient);
      if (refresh_) block_.Refresh(*backend_, Stream());
      refresh_ = false;
    }
  }
  TinyTrainer& trainer() { return trainer_; }

 private:
  Tensor Random(int64_t rows, int64_t cols, uint64_t purpose) {
    const Tensor tensor = backend_->Allocate(rows, cols, Category::kActivations);
    RandomSequence random(11, purpose);
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.f32()[i] = 2 * random.Uniform() - 1;
    return tensor;
  }
  Context MakeContext() {
    return {.backend = *backend_,
            .stream = Stream(),
            .batch = batch_,
            .training = true,
            .seed = 1,
            .step = 1,
            .loss = loss_};
  }

  std::unique_ptr<CpuBackend> backend_;
  TinyTrainer trainer_;
  Block& block_;
  DeviceBatch batch_;
  Tensor loss_, input_, upstream_, dx_;
  bool refresh_ = false;  // before each value
};

TinyOptions Everything() {
  TinyOptions options;
  options.config.qkv_bias = options.config.output_bias = options.config.mlp_bias = true;
  options.config.layer_window = {0, 6, 0};
  return options;
}

TEST_CASE("decoder block") {
  for (const size_t block : {1, 2}) {  // full attention, sliding window
    BlockProbe probe(Everything(), block);
    probe.Backward();
    probe.CheckInput();
    probe.CheckParameters();
  }
}

TEST_CASE("every architecture's blocks") {
  for (const ModelConfig& config : ArchitectureConfigs()) {
    CAPTURE(config.architecture->names.layers);
    TinyOptions options;
    options.config = config;
    for (size_t block = 0; block < 5; ++block) {
      CAPTURE(block);
      BlockProbe probe(options, block);
      probe.Backward();
      if (block > 0) probe.CheckInput();
      probe.CheckParameters();
    }
  }
}

TEST_CASE("decoder block with LoRA, with and without dropout") {
  for (const double dropout : {0.0, 0.25}) {
    TinyOptions options = Everything();
    options.lora = true;
    options.lora_options.dropout = dropout;
    BlockProbe probe(options, 1);
    probe.Backward();
    probe.CheckInput();
    probe.CheckParameters();
  }
}

TEST_CASE("blocks with every kind of adapter, with and without dropout") {
  for (TinyOptions options : AdapterOptions()) {
    CAPTURE(options.config.architecture->names.layers);
    CAPTURE(options.lora_options.dora);
    options.lora_options.dropout = options.lora_options.rslora ? 0.0 : 0.25;
    for (const size_t block : {0, 1, 4}) {
      CAPTURE(block);
      BlockProbe probe(options, block);
      probe.Backward();
      if (block > 0) probe.CheckInput();
      probe.CheckParameters();
    }
    if (!options.lora_options.dora) continue;
    options.lora_options.dropout = 0.0;
    BlockProbe probe(options, 2);
    probe.Backward();
    probe.CheckInput();
    probe.CheckParameters();
  }
}

TEST_CASE("head: norm, product and cross-entropy") {
  BlockProbe probe(Everything(), 4);
  probe.Backward();
  probe.CheckInput();
  probe.CheckParameters();
}

TEST_CASE("embedding") {
  BlockProbe probe(Everything(), 0);
  probe.Backward();
  probe.CheckParameters();
}

TEST_CASE("NEFTune's noise: uniform, as large as each sample's length says, only in training") {
  TinyOptions options;
  auto backend = MakeCpu();
  TinyTrainer trainer(*backend, options);
  const Batch batch = MakeBatch({{40, 10}}, 64, 3);
  DeviceBatch device = UploadBatch(*backend, Stream(), batch, {});
  Context context = {.backend = *backend, .stream = Stream(), .batch = device, .training = true, .step = 1};
  Block& embedding = *trainer.model->blocks()[0];
  const Tensor plain = embedding.Forward(context, Tensor(), nullptr, true);
  constexpr float kAlpha = 6.0f;
  const int64_t hidden = options.config.hidden_size;
  device.noise = UploadNoise(*backend, Stream(), batch, kAlpha, hidden);
  const Tensor noisy = embedding.Forward(context, Tensor(), nullptr, true);
  for (const Segment& s : batch.segments) {
    const double amplitude = kAlpha / std::sqrt(static_cast<double>(s.length * hidden));
    double largest = 0.0, sum = 0.0, squares = 0.0;
    for (int64_t i = s.begin * hidden; i < (s.begin + s.length) * hidden; ++i) {
      const double noise = static_cast<double>(noisy.f32()[i]) - plain.f32()[i];
      largest = std::max(largest, std::abs(noise));
      sum += noise;
      squares += noise * noise;
    }
    const double count = static_cast<double>(s.length * hidden);
    CHECK(largest <= amplitude * 1.001);
    CHECK(largest > amplitude * 0.98);
    CHECK(std::abs(sum / count) < amplitude * 4 / std::sqrt(3 * count));
    CHECK(squares / count == doctest::Approx(amplitude * amplitude / 3).epsilon(0.15));
  }
  context.training = false;
  const Tensor evaluated = embedding.Forward(context, Tensor(), nullptr, true);
  CHECK(std::memcmp(evaluated.f32(), plain.f32(), plain.size() * sizeof(float)) == 0);
}

TEST_CASE("the head's loss is that of whole logits, whatever the chunks") {
  TinyOptions options;
  options.config.vocab_size = 600'000;  // chunks of 16 rows
  options.config.hidden_size = 16;
  options.config.num_heads = options.config.num_kv_heads = 2;
  options.config.head_dim = 8;
  options.config.num_layers = 1;
  options.config.layer_window = {0};
  REQUIRE(HeadBlock::ChunkRows(options.config.vocab_size, CpuWorkspaceSizes(1).Scores()) == 16);
  options.trainable = [](const std::string& name) { return name == "model.norm.weight"; };
  auto backend = MakeCpu();
  TinyTrainer trainer(*backend, options);
  const Batch batch = MakeBatch({{40}}, 40, 3);
  REQUIRE(batch.trained_tokens > 16);
  const double got = trainer.Run({batch}).loss;

  // From whole logits, in double precision.
  const DeviceBatch device = UploadBatch(*backend, Stream(), batch, {});
  const Context context = {.backend = *backend, .stream = Stream(), .batch = device};
  Tensor x;
  auto& blocks = trainer.model->blocks();
  for (size_t i = 0; i + 1 < blocks.size(); ++i) x = blocks[i]->Forward(context, x, nullptr, true);
  const Tensor logits = trainer.model->head().Logits(context, x);
  double sum = 0.0;
  for (int64_t t = 0; t < batch.tokens(); ++t) {
    if (batch.labels[t] == kIgnoreLabel) continue;
    const float* row = logits.f32() + t * logits.cols();
    double total = 0.0;
    for (int64_t v = 0; v < logits.cols(); ++v) total += std::exp(static_cast<double>(row[v]));
    sum += std::log(total) - row[batch.labels[t]];
  }
  CHECK(got == doctest::Approx(sum / static_cast<double>(batch.trained_tokens)).epsilon(1e-6));
}

}  // namespace
}  // namespace ftune::testing
