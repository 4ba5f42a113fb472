// A real trained model of 1 MB against logits computed in double precision, and against the greedy text of
// llama2.c.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "engine/format/loaded_model.h"
#include "engine/train/generate.h"
#include "tests/unit/base/material.h"
#include "tests/unit/engine/tiny.h"

namespace ftune::testing {
namespace {

// llama2.c's tokenizer file: the longest length, then for each id a score, a length and the text.
std::vector<std::string> ReadVocabulary(const std::filesystem::path& path) {
  auto file = MappedFile::Open(path);
  REQUIRE(file.ok());
  const std::string_view data = file->text();
  std::vector<std::string> tokens;
  for (size_t at = sizeof(int32_t); at < data.size();) {
    int32_t length = 0;
    std::memcpy(&length, data.data() + at + sizeof(float), sizeof(length));
    at += sizeof(float) + sizeof(length);
    tokens.emplace_back(data.substr(at, length));
    at += length;
  }
  return tokens;
}

TEST_CASE("stories260K: logits, loss and greedy text") {
  const auto folder = Material("models/stories260K");
  if (!folder) return;
  auto backend = MakeCpu(2);
  auto opened = LoadModel(*backend, Stream(), *folder / "derived_hf", {});
  REQUIRE_MESSAGE(opened.ok(), std::string(opened.status().message()));
  LoadedModel& loaded = *opened;
  const nlohmann::json golden =
      nlohmann::json::parse(std::ifstream(*folder / "derived_hf" / "golden_logits.json"));
  const auto ids = golden["ids"].get<std::vector<int32_t>>();
  const int64_t vocab = loaded.files.config.vocab_size;

  const std::vector<float> logits = AllLogits(*backend, Stream(), *loaded.model, ids);
  for (const auto& [position, want] : golden["logits_at_position"].items()) {
    double worst = 0.0;
    for (int64_t v = 0; v < vocab; ++v) {
      worst = std::max(worst, std::abs(logits[std::stoll(position) * vocab + v] - want[v].get<double>()));
    }
    CAPTURE(position);
    CHECK(worst < 5e-5);  // the file has six digits
  }

  Batch batch;
  batch.packs = 1;
  batch.capacity = static_cast<int64_t>(ids.size());
  batch.ids = ids;
  batch.positions.resize(ids.size());
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  batch.labels.assign(ids.begin() + 1, ids.end());
  batch.labels.push_back(kIgnoreLabel);
  batch.segments = {{0, static_cast<int32_t>(ids.size())}};
  batch.trained_tokens = static_cast<int64_t>(ids.size()) - 1;
  Runner runner(*backend, Stream(), *loaded.model, {});
  const Tensor sum = backend->Allocate(DType::kF64, 1, 1, Category::kBuffers);
  backend->Zero(Stream(), sum);
  runner.Evaluate(batch, sum);
  const double loss = *reinterpret_cast<double*>(sum.bytes()) / static_cast<double>(batch.trained_tokens);
  CHECK(loss == doctest::Approx(golden["mean_nll_of_next_token"].get<double>()).epsilon(1e-5));

  // 200 steps from BOS, with the KV cache.
  auto generated = Generate(*backend, Stream(), *loaded.model, 512, {1}, {.max_new_tokens = 200}, nullptr);
  REQUIRE(generated.ok());
  CHECK(std::vector<int32_t>(ids.begin() + 1, ids.end()) == *generated);
  const std::vector<std::string> vocabulary = ReadVocabulary(*folder / "tok512.bin");
  REQUIRE(static_cast<int64_t>(vocabulary.size()) == vocab);
  std::string text;
  for (const int32_t id : *generated) text += vocabulary[id] == "<0x0A>" ? "\n" : vocabulary[id];
  text.erase(0, text.find_first_not_of(' '));
  std::ifstream expected_file(*folder / "expected_greedy_200.txt");
  std::string expected((std::istreambuf_iterator<char>(expected_file)), {});
  while (!expected.empty() && expected.back() == '\n') expected.pop_back();
  CHECK(text == expected);
}

}  // namespace
}  // namespace ftune::testing
