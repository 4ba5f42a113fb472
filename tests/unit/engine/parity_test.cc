// Meshes of tensor, data, ZeRO, sequence parallelism and accumulation, each compared with one rank.
#include "tests/unit/engine/parity.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

TEST_SUITE_BEGIN("parity");

namespace ftune::testing {
namespace {

struct GridModel {
  std::string name;
  TinyOptions options;
};

std::vector<GridModel> GridModels() {
  std::vector<GridModel> models;
  for (const ModelConfig& config : ArchitectureConfigs()) {
    const auto* const architecture = config.architecture;
    if (architecture != &kLlama && architecture != &kQwen3 && architecture != &kGemma2 &&
        architecture != &kGpt2) {
      continue;
    }
    for (const bool lora : {false, true}) {
      TinyOptions options = Sgd();
      options.config = Divisible(config);
      options.step.max_grad_norm = 0.1f;
      options.lora = lora;
      options.lora_options.dropout = 0.1;
      models.push_back({StrCat(Describe(config), lora ? " with LoRA" : ""), options});
    }
  }
  return models;
}

std::vector<MeshPoint> Grid() {
  constexpr int kRanks = 8;
  std::vector<MeshPoint> points;
  for (const int tensor : {1, 2, 4}) {
    for (const int data : {1, 2, 4}) {
      if (tensor * data > kRanks) continue;
      for (const int zero : {0, 1, 2, 3}) {
        for (const bool sequence : {false, true}) {
          if (sequence && tensor == 1) continue;
          for (const int accumulation : {1, 3}) {
            points.push_back({{.tensor = tensor, .data = data}, zero, sequence, accumulation});
          }
        }
      }
    }
  }
  return points;
}

// The worst of many points.
struct GridReport {
  int points = 0;
  std::array<double, 4> errors = {};
  std::array<std::string, 4> where;

  void Add(const std::string& point, const VerifyResult& result) {
    ++points;
    const std::array<const VerifyMeasure*, 4> measures = {&result.loss, &result.grad_norm, &result.gradient,
                                                          &result.weights};
    for (size_t i = 0; i < measures.size(); ++i) {
      if (measures[i]->error < errors[i]) continue;
      errors[i] = measures[i]->error;
      where[i] = StrCat(measures[i]->what, " at ", point);
    }
  }
  std::string Describe() const {
    std::string text = StrCat(points, " points; the worst errors:");
    for (size_t i = 0; i < errors.size(); ++i) StrAppend(text, "\n  ", errors[i], " ", where[i]);
    return text;
  }
};

void Check(const GridModel& model, const OneRank& one, const MeshPoint& point, GridReport& report) {
  const std::string name = StrCat(model.name, ", ", point.Describe());
  const absl::StatusOr<VerifyResult> result = one.Compare(point);
  CHECK_MESSAGE(result.ok(), name, ": ", std::string(result.status().message()));
  if (!result.ok()) return;
  const VerifyMeasure& worst = result->worst();
  CHECK_MESSAGE(result->ok(), name, ": ", worst.what, " is off by ", worst.error);
  report.Add(name, *result);
}

TEST_CASE("every mesh of the grid does what one rank does") {
  GridReport report;
  for (const GridModel& model : GridModels()) {
    const OneRank one(model.options);
    for (const MeshPoint& point : Grid()) Check(model, one, point, report);
  }
  MESSAGE(report.Describe());
}

TEST_CASE("meshes on which tensor ranks have unequal shares do what one rank does") {
  GridReport report;
  for (const Architecture* architecture : {&kQwen3, &kGpt2}) {
    TinyOptions options = Sgd();
    for (const ModelConfig& config : ArchitectureConfigs()) {
      if (config.architecture == architecture) options.config = config;
    }
    options.config.num_heads = options.config.num_kv_heads = 5;
    options.config.intermediate_size = 81;
    const OneRank one(options);
    for (const MeshPoint& point : Grid()) {
      if (point.shape.tensor == 1) continue;
      Check({Describe(options.config), options}, one, point, report);
    }
  }
  MESSAGE(report.Describe());
}

}  // namespace
}  // namespace ftune::testing

TEST_SUITE_END();
