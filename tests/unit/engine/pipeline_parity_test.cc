// Pipelines of every schedule, with the other axes, each compared with one rank.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/unit/engine/parity.h"

TEST_SUITE_BEGIN("pipeline");

namespace ftune::testing {
namespace {

struct StagedModel {
  std::string name;
  TinyOptions options;
};

// Six layers, so that four stages and two chunks of each of four ranks have blocks.
TinyOptions Deep(ModelConfig config) {
  TinyOptions options = Sgd();
  options.config = Divisible(std::move(config));
  options.config.num_layers = 6;
  options.config.layer_window.resize(6, 0);
  options.config.layer_rope.clear();
  options.step.max_grad_norm = 0.1f;
  return options;
}

std::vector<StagedModel> StagedModels() {
  std::vector<StagedModel> models;
  const auto add = [&](std::string name, const ModelConfig& config) -> TinyOptions& {
    models.push_back({std::move(name), Deep(config)});
    return models.back().options;
  };
  for (const ModelConfig& config : ArchitectureConfigs()) {
    if (config.architecture == &kLlama) {
      add("llama", config);
      add("tied llama", config).config.tied_head = true;
      TinyOptions& lora = add("llama with LoRA", config);
      lora.lora = true;
      lora.lora_options.dropout = 0.1;
      TinyOptions& upper = add("llama whose upper layers train", config);
      upper.trainable = [](const std::string& name) {
        return name.find("layers.4.") != std::string::npos || name.find("layers.5.") != std::string::npos;
      };
    }
    if (config.architecture == &kGpt2) add("gpt2", config);
  }
  return models;
}

void Check(const StagedModel& model, const OneRank& one, const MeshPoint& point) {
  const std::string name = StrCat(model.name, ", ", point.Describe());
  const absl::StatusOr<VerifyResult> result = one.Compare(point);
  CHECK_MESSAGE(result.ok(), name, ": ", std::string(result.status().message()));
  if (!result.ok()) return;
  const VerifyMeasure& worst = result->worst();
  CHECK_MESSAGE(result->ok(), name, ": ", worst.what, " is off by ", worst.error);
}

std::vector<ScheduleSource> Sources() {
  std::vector<ScheduleSource> sources;
  for (const ScheduleKind kind : ScheduleKinds()) {
    const bool two = kind == ScheduleKind::kInterleaved || kind == ScheduleKind::kZbV ||
                     kind == ScheduleKind::kVHalf || kind == ScheduleKind::kVMin;
    sources.push_back({.kind = kind, .chunks = two ? 2 : 1});
  }
  return sources;
}

TEST_CASE("every schedule does what one rank does") {
  for (const StagedModel& model : StagedModels()) {
    const OneRank one(model.options);
    for (const ScheduleSource& source : Sources()) {
      for (const int ranks : {2, 4}) {
        for (const int accumulation : {1, 3, 6}) {
          Check(model, one, {.shape = {.pipeline = ranks}, .accumulation = accumulation, .schedule = source});
        }
      }
    }
  }
}

}  // namespace
}  // namespace ftune::testing

TEST_SUITE_END();
