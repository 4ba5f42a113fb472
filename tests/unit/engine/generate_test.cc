// Generation: the cache against whole forward passes, sampling against its definition.
#include "engine/train/generate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/unit/engine/tiny.h"

namespace ftune::testing {
namespace {

TEST_CASE("with the cache, each token is what a whole forward pass gives") {
  TinyOptions plain, windowed, lora;
  windowed.config.layer_window = {0, 4, 7};
  lora.lora = true;
  for (const TinyOptions& options : {plain, windowed, lora}) {
    auto backend = MakeCpu(2);
    TinyTrainer trainer(*backend, options);
    std::vector<int32_t> text = {5, 17, 3, 88, 41};
    const auto generated =
        Generate(*backend, Stream(), *trainer.model, 128, text, {.max_new_tokens = 20}, nullptr);
    REQUIRE(generated.ok());
    REQUIRE(generated->size() == 20);
    const int64_t vocab = options.config.vocab_size;
    for (const int32_t token : *generated) {
      const std::vector<float> logits = AllLogits(*backend, Stream(), *trainer.model, text);
      const auto last = logits.end() - vocab;
      CHECK(token == std::max_element(last, logits.end()) - last);
      text.push_back(token);
    }
  }
}

TEST_CASE("generation stops where it is told to") {
  auto backend = MakeCpu();
  TinyTrainer trainer(*backend, {});
  const std::vector<int32_t> prompt = {5, 17, 3};
  const auto run = [&](GenerateOptions options, int64_t max_length) {
    auto tokens = Generate(*backend, Stream(), *trainer.model, max_length, prompt, options, nullptr);
    REQUIRE(tokens.ok());
    return *tokens;
  };
  const std::vector<int32_t> all = run({.max_new_tokens = 12}, 128);
  const std::vector<int32_t> stopped = run({.max_new_tokens = 12, .stop_ids = {all[4]}}, 128);
  const auto first = std::find(all.begin(), all.end(), all[4]);
  CHECK(stopped == std::vector<int32_t>(all.begin(), first + 1));
  CHECK(run({.max_new_tokens = 50}, 10).size() == 7);  // the context is full
  CHECK_FALSE(Generate(*backend, Stream(), *trainer.model, 3, prompt, {}, nullptr).ok());
  CHECK_FALSE(Generate(*backend, Stream(), *trainer.model, 128, {}, {}, nullptr).ok());
}

TEST_CASE("samples follow the softmax of the nucleus") {
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f, -1.0f};
  const GenerateOptions options = {.temperature = 0.8, .top_p = 0.9};
  std::map<int32_t, double> counts;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    std::vector<float> copy = logits;
    counts[SampleToken(copy, options, i)] += 1.0 / kDraws;
  }
  // Softmax at 0.8 is 0.727, 0.208, 0.060, 0.005: the first two hold 0.9.
  const double a = std::exp(3.0 / 0.8), b = std::exp(2.0 / 0.8);
  CHECK(counts.size() == 2);
  CHECK(counts[1] == doctest::Approx(a / (a + b)).epsilon(0.02));
  CHECK(counts[2] == doctest::Approx(b / (a + b)).epsilon(0.06));
  std::vector<float> copy = logits;
  CHECK(SampleToken(copy, {.temperature = 0.0}, 0) == 1);
}

}  // namespace
}  // namespace ftune::testing
