// Ranks that share a data coordinate train on the same batches, or are told that they do not.
#include "engine/train/step_agreement.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/loader/batch_hash.h"
#include "tests/unit/engine/parity.h"

TEST_SUITE_BEGIN("step agreement");

namespace ftune::testing {
namespace {

// What a rank is told of a step with such hashes.
std::string Told(const MeshShape& shape, const std::vector<int64_t>& hashes, int rank) {
  std::vector<StepFacts> facts;
  for (const int64_t hash : hashes) facts.push_back({.step = 3, .trained_tokens = 7, .batches = hash});
  return std::string(CheckSame(shape, facts, rank).message());
}

TEST_CASE("a batch is compared with those of the same data coordinate alone, and the ranks are named") {
  constexpr int64_t kOne = 0x123456789abcdef0, kTwo = -0x123456789abcdef;
  const MeshShape shape = {.tensor = 2, .data = 2, .pipeline = 2};  // rank = tensor + 2 (data + 2 pipeline)
  for (const int rank : {0, 5}) {
    CHECK(Told(shape, {kOne, kOne, kTwo, kTwo, kOne, kOne, kTwo, kTwo}, rank).empty());
    const std::string text = Told(shape, {kOne, kOne, kTwo, kTwo, kOne, kOne, kTwo, kOne}, rank);
    CHECK_MESSAGE(text.find("step 3: rank 2 and rank 7 train on parts of one batch, and their data differ") !=
                      text.npos,
                  text);
    CHECK(Told(shape, {kOne, kTwo, kTwo, kTwo, kOne, kOne, kTwo, kTwo}, rank).find("rank 0 and rank 1") !=
          std::string::npos);
  }
  // Data ranks alone have batches of their own.
  CHECK(Told({.data = 2}, {kOne, kTwo}, 0).empty());
}

TEST_CASE("whatever a batch says changes its hash") {
  const std::vector<Batch> batches = {PackOf(1, 0), PackOf(1, 1)};
  const std::vector<std::function<void(std::vector<Batch>&)>> changes = {
      [](std::vector<Batch>& b) { ++b[1].ids[5]; },
      [](std::vector<Batch>& b) { b[0].labels[2] = kIgnoreLabel; },
      [](std::vector<Batch>& b) { ++b[1].positions[3]; },
      [](std::vector<Batch>& b) { ++b[1].segments[0].length; },
      [](std::vector<Batch>& b) { ++b[1].first_token; },
      [](std::vector<Batch>& b) { std::swap(b[0].packs, b[0].capacity); },
      [](std::vector<Batch>& b) { std::swap(b[0], b[1]); },
      [](std::vector<Batch>& b) { b.pop_back(); }};
  for (size_t i = 0; i < changes.size(); ++i) {
    std::vector<Batch> changed = batches;
    CHECK(HashOf(changed) == HashOf(batches));
    changes[i](changed);
    CHECK_MESSAGE(HashOf(changed) != HashOf(batches), i);
  }
}

TEST_CASE("stages that read other tokens of the same number do not train on") {
  for (const ScheduleKind kind : {ScheduleKind::k1F1B, ScheduleKind::kZbH2}) {
    std::vector<std::string> told(2);
    RunRanks({.pipeline = 2}, [&](Mesh& mesh) {
      TinyOptions options = Sgd();
      options.step.max_grad_norm = std::nullopt;
      options.schedule = {.kind = kind};
      const auto backend = MakeCpu();
      TinyTrainer trainer(*backend, options, {}, &mesh);
      StepInput input = {.step = 1, .microbatches = {PackOf(1, 0), PackOf(1, 1)}, .learning_rate = 0.1f};
      for (const Batch& batch : input.microbatches) input.trained_tokens += batch.trained_tokens;
      if (mesh.rank() == 1) input.microbatches[1].ids[0] ^= 1;
      told[mesh.rank()] = std::string(trainer.step->Run(input, [] { return false; }).status().message());
    });
    for (const std::string& text : told) {
      CHECK_MESSAGE(text.find("rank 0 and rank 1 train on parts of one batch") != text.npos, text);
    }
  }
}

}  // namespace
}  // namespace ftune::testing

TEST_SUITE_END();
