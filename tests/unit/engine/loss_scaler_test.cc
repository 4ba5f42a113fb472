// Loss scaling: the scaler's course alone, and in a step whose gradients are made to overflow by a scale that
// is beyond f32.
#include "engine/train/loss_scaler.h"

#include <doctest/doctest.h>

#include "tests/unit/engine/tiny.h"

namespace ftune::testing {
namespace {

TEST_CASE("the loss scale grows after good steps and backs off after bad ones") {
  LossScaler scaler({.initial = 1024, .growth_interval = 3, .hysteresis = 2});
  const auto after = [&](std::initializer_list<bool> overflows) {
    for (const bool overflow : overflows) scaler.Update(overflow);
    return scaler.scale();
  };
  CHECK(scaler.scale() == 1024);
  CHECK(after({false, false}) == 1024);
  CHECK(after({false}) == 2048);
  CHECK(after({false, false}) == 2048);
  CHECK(after({true}) == 2048);          // the first overflow is let pass
  CHECK(after({false, false}) == 2048);  // it began the count of good steps anew
  CHECK(after({true}) == 1024);
  CHECK(after({true}) == 512);  // no growth in between: nothing is let pass
  CHECK(after({false, false, false}) == 1024);
  CHECK(after({true}) == 1024);
  CHECK(after({true}) == 512);
}

TEST_CASE("the defaults are torch.amp.GradScaler's") {
  LossScaler scaler({});
  CHECK(scaler.scale() == 65536);
  for (int i = 0; i < 1999; ++i) scaler.Update(false);
  CHECK(scaler.scale() == 65536);
  scaler.Update(false);
  CHECK(scaler.scale() == 131072);
}

TEST_CASE("the loss scale stops at its least, and the scaler gives up after overflows running") {
  LossScaler scaler({.initial = 4, .hysteresis = 1, .most_overflows = 5});
  for (int i = 0; i < 4; ++i) scaler.Update(true);
  CHECK(scaler.scale() == 1);
  CHECK_FALSE(scaler.gives_up());
  scaler.Update(false);
  for (int i = 0; i < 4; ++i) scaler.Update(true);
  CHECK_FALSE(scaler.gives_up());
  scaler.Update(true);
  CHECK(scaler.gives_up());
}

TEST_CASE("a constant loss scale neither moves nor forgives") {
  LossScaler scaler({.constant = 8.0});
  CHECK_FALSE(scaler.dynamic());
  for (int i = 0; i < 3000; ++i) scaler.Update(false);
  CHECK(scaler.scale() == 8.0);
  CHECK_FALSE(scaler.gives_up());
  scaler.Update(true);
  CHECK(scaler.scale() == 8.0);
  CHECK(scaler.gives_up());
}

TEST_CASE("a scaler goes on from its state") {
  LossScaler one({.growth_interval = 5}), other({.growth_interval = 5});
  for (const bool overflow : {false, false, true, false, false}) one.Update(overflow);
  other.set_state(one.state());
  for (const bool overflow : {true, false, false, false, false, false, true}) {
    one.Update(overflow);
    other.Update(overflow);
    CHECK(one.scale() == other.scale());
  }
}

TinyOptions Fp16(LossScalerOptions scaler) {
  TinyOptions options;
  options.trainable_dtype = DType::kF16;
  options.step.loss_scaler = scaler;
  return options;
}

const Batch& OneBatch() {
  static const Batch batch = MakeBatch({{30}, {28}}, 32, 2);
  return batch;
}

TEST_CASE("a loss scale changes neither loss, norm nor weights: it is a power of two") {
  const auto train = [](LossScalerOptions scaler) {
    auto backend = MakeCpu();
    TinyTrainer trainer(*backend, Fp16(scaler));
    std::vector<float> results;
    for (int step = 1; step <= 4; ++step) {
      const StepOutput output = trainer.Run({OneBatch()}, step, 1e-3f);
      CHECK_FALSE(output.overflow);
      results.push_back(static_cast<float>(output.loss));
      results.push_back(static_cast<float>(output.grad_norm));
    }
    for (Parameter* p : trainer.model->parameters()) {
      const std::vector<float> master = trainer.Read(*trainer.optimizer->StateOf(*p, "master"));
      results.insert(results.end(), master.begin(), master.end());
    }
    return results;
  };
  const std::vector<float> unscaled = train({.constant = 1.0});
  CHECK(train({.constant = 1024.0}) == unscaled);
  CHECK(train({}) == unscaled);
}

TEST_CASE("a step that overflows changes nothing and does not count as an update") {
  auto backend = MakeCpu();
  TinyTrainer trainer(*backend, Fp16({.initial = 0x1p200, .hysteresis = 1, .most_overflows = 1000}));
  TinyTrainer plain(*backend, Fp16({.constant = 1.0}));
  Parameter* p = trainer.model->Find("model.layers.1.mlp.up_proj.weight");
  const std::vector<float> before = trainer.Read(*trainer.optimizer->StateOf(*p, "master"));
  int step = 1, skipped = 0;
  for (; trainer.Run({OneBatch()}, step, 1e-3f).overflow; ++step) {
    ++skipped;
    REQUIRE(skipped < 200);
    CHECK(trainer.optimizer->updates() == 0);
    CHECK(trainer.Read(*trainer.optimizer->StateOf(*p, "master")) == before);
    CHECK(trainer.step->scaler()->scale() == std::ldexp(1.0, 200 - skipped));
  }
  CHECK(skipped > 50);
  CHECK(trainer.optimizer->updates() == 1);
  // The first update is AdamW's first, whatever the step's number.
  plain.Run({OneBatch()}, 1, 1e-3f);
  const auto master = [&](TinyTrainer& t) {
    return t.Read(*t.optimizer->StateOf(*t.model->Find(p->name), "master"));
  };
  const std::vector<float> got = master(trainer), want = master(plain);
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) worst = std::max<double>(worst, std::abs(got[i] - want[i]));
  CHECK(worst < 1e-6);
  CHECK(got != before);
}

TEST_CASE("gradients that are infinite without a scaler, and a loss that is not a number, are no overflow") {
  auto backend = MakeCpu();
  TinyTrainer trainer(*backend, Fp16({.initial = 1.0}));
  Parameter* p = trainer.model->Find("model.layers.1.mlp.up_proj.weight");
  const std::vector<uint16_t> nans(p->size(), 0x7E00);
  backend->Upload(Stream(), std::as_bytes(std::span(nans)), p->value);
  const StepOutput output = trainer.Run({OneBatch()}, 1, 1e-3f);
  CHECK(std::isnan(output.loss));
  CHECK_FALSE(output.overflow);
  CHECK(trainer.step->scaler()->state().overflows == 0);
  CHECK(trainer.optimizer->updates() == 0);
}

}  // namespace
}  // namespace ftune::testing
