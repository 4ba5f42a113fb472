// The operations that a batch needs against those that the backend was asked for, where it is asked for no
// others.
#include "engine/train/model_flops.h"

#include <doctest/doctest.h>

#include "tests/unit/engine/tiny.h"

namespace ftune::testing {
namespace {

// Without gaps, and something is trained in each sample.
Batch FullBatch() { return MakeBatch({{20, 13, 15}, {48}}, 48, 5); }

// What a step and the formula say of the batch.
void CheckAgainstBackend(const TinyOptions& options) {
  const auto meta = MakeMeta();
  TinyTrainer trainer(*meta, options);
  const double before = meta->work().useful_flops;
  trainer.Run({FullBatch()});
  CHECK(meta->work().useful_flops - before ==
        ModelFlops(*trainer.model, trainer.step->runner().pipeline().first_trainable()).Of(FullBatch()));
}

TEST_CASE("a batch without gaps needs what the backend is asked for") {
  using Mode = RecomputePolicy::Mode;
  for (const ModelConfig& config : ArchitectureConfigs()) {
    for (const bool lora : {false, true}) {
      for (const Mode mode : {Mode::kNone, Mode::kEveryNth}) {
        TinyOptions options;
        options.config = config;
        options.lora = lora;
        options.step.recompute = {mode, 1};
        CheckAgainstBackend(options);
      }
    }
  }
  for (const TinyOptions& options : AdapterOptions()) {
    if (!options.lora_options.dora) CheckAgainstBackend(options);  // whose norms are products, too
  }
}

TEST_CASE("what is frozen below everything that is trained takes no backward") {
  for (const char* part : {"layers.1", "layers.1.self_attn.q_proj", "layers.0.input_layernorm",
                           "layers.0.mlp", "lm_head", "embed_tokens"}) {
    TinyOptions options;
    options.trainable = [part](const std::string& name) { return name.find(part) != std::string::npos; };
    CheckAgainstBackend(options);
  }
}

TEST_CASE("gaps and empty packs need nothing") {
  const auto meta = MakeMeta();
  for (ModelConfig config : ArchitectureConfigs()) {
    TinyOptions options;
    options.config = config;
    TinyTrainer trainer(*meta, options);
    const ModelFlops flops(*trainer.model, trainer.step->runner().pipeline().first_trainable());
    const Batch tight = MakeBatch({{20, 13}}, 33, 5);
    Batch gaps = MakeBatch({{20, 13}, {}}, 64, 5);
    gaps.segments.push_back({33, 31});  // as the loader has a pack's unfilled tail
    gaps.segments.push_back({64, 64});
    CHECK(flops.Of(gaps) == flops.Of(tight));
    CHECK(flops.Of(MakeBatch({{}, {}}, 64, 5)) == 0);
  }
}

}  // namespace
}  // namespace ftune::testing
