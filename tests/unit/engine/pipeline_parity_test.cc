// Pipelines of every schedule, with the other axes, each compared with one rank. A covering array of the
// grid; the suite "pipeline grid" is all of it.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/unit/engine/pairwise.h"
#include "tests/unit/engine/parity.h"

namespace ftune::testing {
namespace {

struct StagedModel {
  std::string name;
  TinyOptions options;
};

// Six layers, so that eight stages have blocks.
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
    if (config.architecture == &kGpt2) add("gpt2", config);
    if (config.architecture != &kLlama) continue;
    add("llama", config);
    add("tied llama", config).config.tied_head = true;
    TinyOptions& lora = add("llama with LoRA", config);
    lora.lora = true;
    lora.lora_options.dropout = 0.1;
    TinyOptions& ends = add("tied llama with LoRA at both ends", config);
    ends.config.tied_head = true;
    ends.lora = true;
    ends.lora_options.target_modules = std::vector<std::string>{"q_proj", "embed_tokens", "lm_head"};
    TinyOptions& saved = add("tied llama with LoRA and a trained embedding", config);
    saved.config.tied_head = true;
    saved.lora = true;
    saved.lora_options.target_modules = std::vector<std::string>{"up_proj"};
    saved.lora_options.modules_to_save = {"embed_tokens"};
    TinyOptions& quantized = add("llama with LoRA on NF4, recomputed", config);
    quantized.lora = true;
    quantized.quantize = DType::kNF4;
    quantized.step.recompute = {RecomputePolicy::Mode::kEveryNth, 2};
    TinyOptions& upper = add("llama whose upper layers train", config);
    upper.trainable = [](const std::string& name) {
      return name.find("layers.4.") != std::string::npos || name.find("layers.5.") != std::string::npos;
    };
  }
  return models;
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

// The axes of the grid. Microbatches: fewer than stages, as many, more, and none that they divide.
enum Axis { kModel, kSource, kRanks, kData, kTensor, kZero, kSequence, kAccumulation, kReshard, kAxes };
const std::vector<int> kStageRanks = {2, 4}, kGroups = {1, 2}, kAccumulations = {1, 2, 3, 6};

std::vector<int> Sizes() {
  std::vector<int> sizes(kAxes, 2);
  sizes[kModel] = static_cast<int>(StagedModels().size());
  sizes[kSource] = static_cast<int>(Sources().size());
  sizes[kZero] = 4;
  sizes[kAccumulation] = static_cast<int>(kAccumulations.size());
  return sizes;
}

bool Valid(const GridPoint& p) {
  constexpr int kRanks = 8;
  const int ranks = kStageRanks[p[Axis::kRanks]] * kGroups[p[kData]] * kGroups[p[kTensor]];
  if (ranks > kRanks) return false;
  if (p[kSequence] == 1 && p[kTensor] == 0) return false;
  // Slices of NF4 have scales of their own.
  if (p[kTensor] == 1 && StagedModels()[p[kModel]].options.quantize) return false;
  return p[kReshard] == 0 || p[kZero] == 3;
}

MeshPoint PointOf(const GridPoint& p) {
  return {
      .shape = {.tensor = kGroups[p[kTensor]], .data = kGroups[p[kData]], .pipeline = kStageRanks[p[kRanks]]},
      .zero = p[kZero],
      .sequence = p[kSequence] == 1,
      .accumulation = kAccumulations[p[kAccumulation]],
      .schedule = Sources()[p[kSource]],
      .reshard_after_use = p[kReshard] == 0};
}

void CheckAll(const std::vector<GridPoint>& points) {
  const std::vector<StagedModel> models = StagedModels();
  double worst_error = 0.0;
  for (size_t m = 0; m < models.size(); ++m) {
    const OneRank one(models[m].options);
    for (const GridPoint& p : points) {
      if (p[kModel] != static_cast<int>(m)) continue;
      const MeshPoint point = PointOf(p);
      const std::string name = StrCat(models[m].name, ", ", point.Describe());
      const absl::StatusOr<VerifyResult> result = one.Compare(point);
      CHECK_MESSAGE(result.ok(), name, ": ", std::string(result.status().message()));
      if (!result.ok()) continue;
      const VerifyMeasure& worst = result->worst();
      CHECK_MESSAGE(result->ok(), name, ": ", worst.what, " is off by ", worst.error);
      worst_error = std::max(worst_error, result->gradient.error);
    }
  }
  MESSAGE(points.size(), " points; the worst gradient is off by ", worst_error);
}

TEST_SUITE("pipeline") {
  TEST_CASE("pipelines of a covering array do what one rank does") {
    constexpr uint64_t kSeed = 6;
    CheckAll(PairwisePoints(Sizes(), Valid, kSeed));
  }
}

TEST_SUITE("pipeline grid") {
  TEST_CASE("every pipeline of the grid does what one rank does") {
    std::vector<GridPoint> points = {{}};
    for (const int size : Sizes()) {
      std::vector<GridPoint> longer;
      for (const GridPoint& point : points) {
        for (int value = 0; value < size; ++value) {
          longer.push_back(point);
          longer.back().push_back(value);
        }
      }
      points = std::move(longer);
    }
    std::erase_if(points, [](const GridPoint& point) { return !Valid(point); });
    CheckAll(points);
  }
}

}  // namespace
}  // namespace ftune::testing
