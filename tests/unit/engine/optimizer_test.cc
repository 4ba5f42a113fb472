// What the optimizer itself does: which rule has which parameter, state by name, runs with their own learning
// rates, weights without a master.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "base/strings.h"
#include "engine/optim/lr_schedule.h"
#include "tests/unit/engine/tiny.h"

namespace ftune::testing {
namespace {

constexpr OptimizerKind kKinds[] = {OptimizerKind::kAdamW, OptimizerKind::kSgd,
                                    OptimizerKind::kLion,  OptimizerKind::kAdafactor,
                                    OptimizerKind::kMuon,  OptimizerKind::kAdamW8bit};

TinyOptions WithOptimizer(OptimizerKind kind) {
  TinyOptions options;
  options.optimizer.kind = kind;
  options.optimizer.momentum = 0.9f;
  return options;
}

std::string StateNames(TinyTrainer& trainer, const std::string& name) {
  Parameter* p = trainer.model->Find(name);
  REQUIRE_MESSAGE(p != nullptr, name);
  std::vector<std::string> names;
  const auto states = trainer.optimizer->StateOf(*p);
  for (const NamedTensor& state : *states) {
    names.push_back(StrCat(state.name, " ", state.tensor.size()));
  }
  return StrJoin(names, ", ");
}

TEST_CASE("every optimizer lowers the loss") {
  for (const OptimizerKind kind : kKinds) {
    for (const bool lora : {false, true}) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(lora);
      TinyOptions options = WithOptimizer(kind);
      options.lora = lora;
      auto backend = MakeCpu();
      TinyTrainer trainer(*backend, options);
      const float rate = kind == OptimizerKind::kSgd ? 0.1f : 3e-3f;
      std::vector<double> losses;
      for (int step = 1; step <= 15; ++step) {
        losses.push_back(trainer.Run({MakeBatch({{30}, {28}}, 32, 2)}, step, rate).loss);
      }
      CHECK(losses.back() < losses.front() - 0.05);
    }
  }
}

TEST_CASE("state is what each rule says, by parameter and name") {
  const std::string matrix = "model.layers.0.mlp.up_proj.weight";  // [80, 48]
  const std::string norm = "model.norm.weight";                    // [48]
  const std::string embedding = "model.embed_tokens.weight";       // [97, 48]
  const auto states = [&](OptimizerKind kind, DType dtype = DType::kF32) {
    TinyOptions options = WithOptimizer(kind);
    options.trainable_dtype = dtype;
    auto backend = MakeCpu();
    TinyTrainer trainer(*backend, options);
    return StrCat(StateNames(trainer, matrix), " | ", StateNames(trainer, norm), " | ",
                  StateNames(trainer, embedding));
  };
  CHECK(states(OptimizerKind::kAdamW, DType::kBF16) ==
        "master 3840, moment1 3840, moment2 3840 | master 48, moment1 48, moment2 48 | master 4656, moment1 "
        "4656, moment2 4656");
  CHECK(states(OptimizerKind::kSgd) == "momentum 3840 | momentum 48 | momentum 4656");
  CHECK(states(OptimizerKind::kLion) == "momentum 3840 | momentum 48 | momentum 4656");
  CHECK(states(OptimizerKind::kAdafactor) ==
        "row_variance 80, col_variance 48 | variance 48 | row_variance 97, col_variance 48");
  // Muon is for hidden matrices only.
  CHECK(states(OptimizerKind::kMuon) ==
        "momentum 3840 | moment1 48, moment2 48 | moment1 4656, moment2 4656");
  // Less than 4096 elements are not worth 8 bits.
  CHECK(states(OptimizerKind::kAdamW8bit) ==
        "moment1 3840, moment2 3840 | moment1 48, moment2 48 | moment1_codes 4656, moment1_scales 19, "
        "moment2_codes 4656, moment2_scales 19");
}

TEST_CASE("no two parameters share an element of state") {
  for (const OptimizerKind kind : kKinds) {
    auto backend = MakeCpu();
    TinyTrainer trainer(*backend, WithOptimizer(kind));
    std::set<std::pair<std::byte*, int64_t>> places;
    for (Parameter* p : trainer.model->parameters()) {
      const auto states = trainer.optimizer->StateOf(*p);
      for (const NamedTensor& state : *states) {
        places.insert({state.tensor.bytes(), BytesFor(state.tensor.dtype(), state.tensor.size())});
      }
    }
    const std::byte* end = nullptr;
    for (const auto& [begin, bytes] : places) {
      CHECK(begin >= end);
      end = begin + bytes;
    }
  }
}

TEST_CASE("a frozen parameter has no state") {
  TinyOptions options;
  options.trainable = [](const std::string& name) { return name != "model.norm.weight"; };
  auto backend = MakeCpu();
  TinyTrainer trainer(*backend, options);
  CHECK(StateNames(trainer, "model.norm.weight") == "");
  CHECK_FALSE(trainer.optimizer->StateOf(*trainer.model->Find("model.norm.weight"), "moment1")->defined());
}

// How far each parameter moved in one step.
std::vector<std::pair<std::string, double>> Moves(TinyTrainer& trainer, float learning_rate) {
  std::vector<std::vector<float>> before;
  for (Parameter* p : trainer.model->parameters()) before.push_back(trainer.Read(p->value));
  trainer.Run({MakeBatch({{30}, {28}}, 32, 2)}, 1, learning_rate);
  std::vector<std::pair<std::string, double>> moves;
  for (Parameter* p : trainer.model->parameters()) {
    std::vector<float> now = trainer.Read(p->value);
    for (size_t i = 0; i < now.size(); ++i) now[i] -= before[moves.size()][i];
    moves.emplace_back(p->name, Norm(now));
  }
  return moves;
}

TEST_CASE("a parameter's own factor on the learning rate, and decay of matrices only") {
  const std::string faster = "model.layers.1.self_attn.k_proj.weight";
  for (const OptimizerKind kind : kKinds) {
    CAPTURE(static_cast<int>(kind));
    if (kind == OptimizerKind::kAdafactor) continue;  // its steps are not proportional to the rate
    const auto moves = [&](double factor, float decay) {
      TinyOptions options = WithOptimizer(kind);
      options.optimizer.weight_decay = decay;
      auto backend = MakeCpu();
      TinyTrainer trainer(*backend, options);
      trainer.model->Find(faster)->lr_factor = factor;
      trainer.optimizer = std::make_unique<Optimizer>(*backend, Stream(), *trainer.model, options.optimizer);
      trainer.step = std::make_unique<TrainStep>(*backend, Stream(), *trainer.model, *trainer.optimizer,
                                                 TrainStep::Options());
      return Moves(trainer, 1e-4f);
    };
    const auto plain = moves(1.0, 0.0f), scaled = moves(16.0, 0.0f), decayed = moves(1.0, 100.0f);
    for (size_t i = 0; i < plain.size(); ++i) {
      CAPTURE(plain[i].first);
      const double factor = plain[i].first == faster ? 16.0 : 1.0;
      CHECK(scaled[i].second == doctest::Approx(factor * plain[i].second).epsilon(0.01));
      const bool norm = plain[i].first.find("norm") != std::string::npos;
      CHECK((decayed[i].second == plain[i].second) == norm);
    }
  }
}

TEST_CASE("bf16 weights without a master: updates far below their resolution add up in expectation") {
  TinyOptions options;
  options.trainable_dtype = DType::kBF16;
  options.optimizer.kind =
      OptimizerKind::kLion;  // moves each weight by the learning rate, whatever the gradient
  options.optimizer.beta2 = 0.99f;
  options.optimizer.master = false;
  const auto train = [&](uint64_t seed) {
    TinyOptions seeded = options;
    seeded.optimizer.seed = seed;
    auto backend = MakeCpu();
    TinyTrainer trainer(*backend, seeded);
    Parameter* p = trainer.model->Find("model.layers.1.mlp.up_proj.weight");
    const auto read = [&] {
      const Tensor wide = backend->Allocate(p->value.rows(), p->value.cols(), Category::kBuffers);
      backend->Convert(Stream(), p->value, wide);
      return trainer.Read(wide);
    };
    CHECK_FALSE(trainer.optimizer->StateOf(*p, "master")->defined());
    std::vector<std::vector<float>> values = {read()};
    const Batch batch = MakeBatch({{30}, {28}}, 32, 2);
    for (int step = 1; step <= 50; ++step) trainer.Run({batch}, step, 1e-6f);
    values.push_back(read());
    values.push_back(trainer.Read(*trainer.optimizer->StateOf(*p, "momentum")));
    return values;
  };
  const auto values = train(1);
  // The same batch at weights that hardly move: the momentum's sign is the gradient's of every step.
  double along = 0.0;
  for (size_t i = 0; i < values[0].size(); ++i) {
    along += (values[1][i] - values[0][i]) * (values[2][i] > 0 ? -1.0 : 1.0);
  }
  // 50 steps of 1e-6; weights of about 0.1 lie 5e-4 apart, so few of 3840 have moved, and those far. The
  // deviation of their mean is about √(50e-6 × 5e-4 / 3840) = 2.6e-6.
  CHECK(along / static_cast<double>(values[0].size()) == doctest::Approx(50e-6).epsilon(0.3));
  CHECK(train(1)[1] == values[1]);
  CHECK(train(2)[1] != values[1]);
}

TEST_CASE("a warm-up that is a share of the steps never takes them all") {
  CHECK(WarmupSteps(0.03, 1) == 0);
  CHECK(WarmupSteps(0.03, 33) == 0);
  CHECK(WarmupSteps(0.03, 34) == 1);
  CHECK(WarmupSteps(0.03, 1000) == 30);
  CHECK(WarmupSteps(0.29, 100) == 29);  // though 0.29 × 100 is a little less in double
  CHECK(WarmupSteps(1.0, 1) == 0);
  CHECK(WarmupSteps(1.0, 10) == 9);
  CHECK(WarmupSteps(0.5, 0) == 0);
  CHECK(WarmupSteps(0.0, 10) == 0);
  // A given number of steps stays as transformers has it: the first step of it at 0.
  CHECK(LearningRate({.peak = 1.0, .warmup_steps = 4, .total_steps = 2}, 0) == 0.0);
  CHECK(LearningRate({.peak = 1.0, .warmup_steps = 4, .total_steps = 2}, 1) == 0.25);
}

}  // namespace
}  // namespace ftune::testing
