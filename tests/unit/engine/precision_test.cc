// bf16 weights with an f32 master: small updates are not lost, and the weights are always the master,
// rounded.
#include <doctest/doctest.h>

#include <cmath>

#include "base/convert.h"
#include "tests/unit/engine/tiny.h"

namespace ftune::testing {
namespace {

TEST_CASE("updates below bf16's resolution add up in the master") {
  TinyOptions options;
  options.trainable_dtype = DType::kBF16;
  auto backend = MakeCpu();
  TinyTrainer trainer(*backend, options);
  Parameter* p = trainer.model->Find("model.layers.1.mlp.up_proj.weight");
  REQUIRE(p != nullptr);
  const Tensor master_copy = *trainer.optimizer->StateOf(*p, "master");
  REQUIRE(master_copy.defined());
  const std::vector<float> first = trainer.Read(master_copy);

  constexpr float kLearningRate = 2e-5f;  // weights are about 0.1: bf16's step there is 5e-4
  constexpr int kSteps = 60;
  const Batch batch = MakeBatch({{30}, {28}}, 32, 2);
  for (int step = 1; step <= kSteps; ++step) trainer.Run({batch}, step, kLearningRate);

  const std::vector<float> master = trainer.Read(master_copy);
  const Tensor widened = backend->Allocate(p->value.rows(), p->value.cols(), Category::kBuffers);
  backend->Convert(Stream(), p->value, widened);
  const std::vector<float> weights = trainer.Read(widened);
  double moved = 0.0;
  int changed = 0;
  for (size_t i = 0; i < master.size(); ++i) {
    moved += std::abs(master[i] - first[i]) / static_cast<double>(master.size());
    changed += weights[i] != first[i];
    CHECK(std::abs(weights[i] - master[i]) <= std::abs(master[i]) * 0x1p-8);
  }
  // AdamW moves a weight by about the learning rate a step; each step alone would round to nothing.
  CHECK(moved > 0.3 * kSteps * kLearningRate);
  CHECK(changed > static_cast<int>(master.size()) / 4);
}

TEST_CASE("bf16 weights train as f32 weights do, within their rounding") {
  const auto losses = [](DType dtype) {
    TinyOptions options;
    options.trainable_dtype = dtype;
    auto backend = MakeCpu();
    TinyTrainer trainer(*backend, options);
    std::vector<double> all;
    for (int step = 1; step <= 10; ++step) {
      all.push_back(trainer.Run({MakeBatch({{30}, {28}}, 32, 2)}, step, 3e-3f).loss);
    }
    return all;
  };
  const std::vector<double> want = losses(DType::kF32);
  const std::vector<double> got = losses(DType::kBF16);
  CHECK(want.back() < 0.9 * want.front());
  for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(0x1p-6));
}

}  // namespace
}  // namespace ftune::testing
