// Checkpoints that one mesh writes and another reads: to the byte, and trained on from there.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "engine/checkpoint/checkpoint_loader.h"
#include "engine/checkpoint/checkpoint_saver.h"
#include "engine/checkpoint/shared_reader.h"
#include "tests/unit/engine/parity.h"

namespace ftune::testing {
namespace {

namespace fs = std::filesystem;

constexpr float kLearningRate = 0.05f;

StepOutput TrainStepOf(TinyTrainer& trainer, const MeshPoint& point, Mesh& mesh, int64_t step) {
  PackSource source(point, mesh.Coordinate(MeshAxis::kData), nullptr);
  REQUIRE(source.Seek({.step = step - 1}).ok());
  const StepBatches batches = **source.Next();
  const absl::StatusOr<StepOutput> output = trainer.step->Run({.step = step,
                                                               .microbatches = batches.microbatches,
                                                               .trained_tokens = batches.trained_tokens,
                                                               .learning_rate = kLearningRate},
                                                              [] { return false; });
  REQUIRE_MESSAGE(output.ok(), std::string(output.status().message()));
  return *output;
}

struct Task {
  fs::path load;           // empty: as the model begins
  std::vector<int> steps;  // to be trained, one after another
  fs::path save;           // empty: not; the folder of all checkpoints
  bool async = false;
  bool alone = false;  // only the first rank sees the folders
};

// What the last step gave.
StepOutput RunTask(const TinyOptions& model, const MeshPoint& point, const Task& task) {
  StepOutput last;
  RunRanks(point.shape, [&](Mesh& mesh) {
    TinyOptions options = model;
    options.sharding.zero = point.zero;
    options.schedule = point.schedule;
    options.sharding.persistence_threshold = 100;
    const auto backend = MakeCpu();
    TinyTrainer trainer(*backend, options, TensorAxis(mesh.axis(MeshAxis::kTensor), point.sequence), &mesh);
    const auto seen = [&](const fs::path& path) {
      return task.alone && mesh.rank() != 0 ? path / "elsewhere" : path;
    };
    if (!task.load.empty()) {
      absl::StatusOr<CheckpointReader> reader =
          OpenForAllRanks(mesh.world(), seen(task.load), *trainer.model, *trainer.shards, *trainer.optimizer);
      REQUIRE_MESSAGE(reader.ok(), std::string(reader.status().message()));
      const absl::Status loaded =
          LoadCheckpoint(*backend, Stream(), *reader, *trainer.model, *trainer.shards, *trainer.optimizer);
      REQUIRE_MESSAGE(loaded.ok(), std::string(loaded.message()));
    }
    StepOutput output;
    for (const int step : task.steps) output = TrainStepOf(trainer, point, mesh, step);
    if (mesh.rank() == 0) last = output;
    if (task.save.empty()) return;
    auto saver =
        CheckpointSaver::Create(*backend, Stream(), *trainer.model, *trainer.shards, *trainer.optimizer,
                                {.checkpoints = seen(task.save), .async = task.async});
    REQUIRE_MESSAGE(saver.ok(), std::string(saver.status().message()));
    const int64_t step = task.steps.empty() ? 1 : task.steps.back();
    REQUIRE((*saver)->Save({.position = {.step = step}, .updates = trainer.optimizer->updates()}).ok());
    // What training does meanwhile is not in it.
    if (task.async) TrainStepOf(trainer, point, mesh, step + 1);
    (*saver)->Wait();
    for (const SaveReport& report : (*saver)->TakeReports()) {
      REQUIRE_MESSAGE(report.status.ok(), std::string(report.status.message()));
    }
  });
  return last;
}

std::map<std::string, std::string> BytesOf(const fs::path& folder) {
  absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open(folder);
  REQUIRE_MESSAGE(reader.ok(), std::string(reader.status().message()));
  std::map<std::string, std::string> all;
  const auto add = [&](const std::string& name, const CheckpointTensor& tensor) {
    std::string& bytes = all[StrCat(name, " ", std::string(Name(tensor.dtype)))];
    bytes.resize(static_cast<size_t>(tensor.bytes()));
    REQUIRE(reader->Read(tensor, WholeOf(tensor.shape), reinterpret_cast<std::byte*>(bytes.data())).ok());
  };
  for (const auto& [name, tensor] : reader->manifest().values) add(name, tensor);
  for (const auto& [name, states] : reader->manifest().optimizer) {
    for (const auto& [state, tensor] : states) add(StrCat(name, "/", state), tensor);
  }
  for (const CheckpointFile& file : reader->manifest().files) CHECK(CheckHash(folder, file).ok());
  return all;
}

// The first tensor that differs; empty where none does.
std::string Difference(const fs::path& a, const fs::path& b) {
  const auto ours = BytesOf(a), theirs = BytesOf(b);
  if (ours.empty()) return "nothing there";
  if (ours.size() != theirs.size()) return StrCat(ours.size(), " tensors and ", theirs.size());
  for (const auto& [name, bytes] : ours) {
    const auto other = theirs.find(name);
    if (other == theirs.end() || other->second != bytes) return name;
  }
  return "";
}

std::vector<MeshPoint> Points() {
  const auto staged = [](MeshShape shape, int zero, ScheduleKind kind, int chunks) {
    MeshPoint point = {.shape = shape, .zero = zero, .accumulation = 2};
    point.schedule.kind = kind;
    point.schedule.chunks = chunks;
    return point;
  };
  return {{},
          {.shape = {.data = 2}, .zero = 0},
          {.shape = {.data = 3}, .zero = 1},
          {.shape = {.data = 4}, .zero = 3},
          {.shape = {.tensor = 2}},
          {.shape = {.tensor = 4}, .sequence = true},
          {.shape = {.tensor = 2, .data = 2}, .zero = 2},
          staged({.pipeline = 2}, 0, ScheduleKind::k1F1B, 1),
          staged({.tensor = 2, .data = 2, .pipeline = 2}, 3, ScheduleKind::k1F1B, 1),
          staged({.data = 2, .pipeline = 2}, 1, ScheduleKind::kZbV, 2)};
}

// Save on a, load on b, save there: the same bytes, also when b has them loaded back by a. A step from there
// is a's own.
void CheckPair(const TinyOptions& model, const MeshPoint& a, const MeshPoint& b, const fs::path& saved_on_a,
               const StepOutput& next_on_a) {
  CAPTURE(a.Describe());
  CAPTURE(b.Describe());
  const TempFolder folder;
  RunTask(model, b, {.load = saved_on_a, .save = folder.path() / "b"});
  const fs::path on_b = folder.path() / "b" / CheckpointName(1);
  CHECK(Difference(saved_on_a, on_b) == "");
  RunTask(model, a, {.load = on_b, .save = folder.path() / "a"});
  CHECK(Difference(on_b, folder.path() / "a" / CheckpointName(1)) == "");
  const StepOutput next = RunTask(model, b, {.load = saved_on_a, .steps = {2}});
  CHECK(std::abs(next.loss / next_on_a.loss - 1) < 1e-5);
  CHECK(std::abs(next.grad_norm / next_on_a.grad_norm - 1) < 1e-5);
}

void CheckPairs(const TinyOptions& model, const std::vector<MeshPoint>& points) {
  for (const MeshPoint& a : points) {
    const TempFolder folder;
    RunTask(model, a, {.steps = {1}, .save = folder.path(), .async = a.shape.pipeline == 1});
    const fs::path saved = folder.path() / CheckpointName(1);
    const StepOutput next = RunTask(model, a, {.steps = {1, 2}});
    for (const MeshPoint& b : points) CheckPair(model, a, b, saved, next);
  }
}

TinyOptions Model() {
  TinyOptions options;
  options.config = Divisible(TinyConfig());
  options.optimizer = {.kind = OptimizerKind::kAdamW, .eps = 1e-3f, .weight_decay = 0.1f};
  return options;
}

TEST_SUITE_BEGIN("checkpoint");

TEST_CASE("checkpoint: any mesh to any mesh, all of a model") { CheckPairs(Model(), Points()); }

TEST_CASE("checkpoint: any mesh to any mesh, tied, with f32 masters of bf16 weights") {
  TinyOptions model = Model();
  model.config.tied_head = true;
  const std::vector<MeshPoint> all = Points();
  CheckPairs(model, {all[0], all[3], all[5], all[8], all[9]});
  // Other meshes round other sums to bf16, so only their bytes are compared.
  model.trainable_dtype = DType::kBF16;
  const TempFolder folder;
  RunTask(model, all[0], {.steps = {1}, .save = folder.path() / "a"});
  for (const MeshPoint& point : all) {
    CAPTURE(point.Describe());
    const TempFolder other;
    RunTask(model, point, {.load = folder.path() / "a" / CheckpointName(1), .save = other.path()});
    CHECK(Difference(folder.path() / "a" / CheckpointName(1), other.path() / CheckpointName(1)) == "");
  }
}

TEST_CASE("checkpoint: any mesh to any mesh, LoRA") {
  TinyOptions model = Model();
  model.lora = true;
  model.lora_options.modules_to_save = {"lm_head", "norm"};
  const std::vector<MeshPoint> all = Points();
  CheckPairs(model, {all[0], all[3], all[5], all[6], all[8]});
}

TEST_CASE("checkpoint: all architectures, between three meshes") {
  const std::vector<MeshPoint> all = Points();
  for (const ModelConfig& config : ArchitectureConfigs()) {
    CAPTURE(Describe(config));
    TinyOptions model = Model();
    model.config = Divisible(config);
    CheckPairs(model, {all[0], all[6], all[8]});
  }
}

TEST_CASE("checkpoint: optimizers whose state is not by element") {
  for (const OptimizerKind kind : {OptimizerKind::kAdamW8bit, OptimizerKind::kAdafactor, OptimizerKind::kMuon,
                                   OptimizerKind::kLion, OptimizerKind::kSgd}) {
    CAPTURE(static_cast<int>(kind));
    TinyOptions model = Model();
    model.config.vocab_size = 301;
    model.config.hidden_size = 64;
    model.config.intermediate_size = 160;
    model.optimizer = {.kind = kind, .momentum = 0.9f};
    const std::vector<MeshPoint> all = Points();
    CheckPairs(model, {all[0], all[1], all[2], all[3]});
    if (kind != OptimizerKind::kAdamW8bit) continue;
    CheckPairs(model, {all[4], all[6], all[4]});
  }
}

TEST_CASE("checkpoint: states on disk and in memory are the same") {
  TinyOptions model = Model();
  TinyOptions on_disk = model;
  const TempFolder folder;
  on_disk.offload = OffloadOptions{.disk = {.folder = folder.path()}, .piece_bytes = 20'000};
  const MeshPoint one, two = {.shape = {.data = 2}, .zero = 1};
  RunTask(model, one, {.steps = {1}, .save = folder.path() / "memory"});
  const fs::path memory = folder.path() / "memory" / CheckpointName(1);
  for (const bool async : {false, true}) {
    RunTask(on_disk, two, {.load = memory, .save = folder.path() / StrCat("disk", async), .async = async});
    CHECK(Difference(memory, folder.path() / StrCat("disk", async) / CheckpointName(1)) == "");
  }
  const StepOutput here = RunTask(model, two, {.load = memory, .steps = {2}});
  const StepOutput there = RunTask(on_disk, two, {.load = memory, .steps = {2}});
  CHECK(here.loss == there.loss);
  CHECK(here.grad_norm == there.grad_norm);
}

TEST_CASE("checkpoint: a disk that only the first rank sees") {
  const std::vector<MeshPoint> all = Points();
  TinyOptions model = Model();
  for (const MeshPoint& point : {all[1], all[3], all[6], all[8]}) {
    CAPTURE(point.Describe());
    const TempFolder folder;
    RunTask(model, all[0], {.steps = {1}, .save = folder.path() / "one"});
    const fs::path one = folder.path() / "one" / CheckpointName(1);
    for (const bool async : {false, true}) {
      const fs::path there = folder.path() / StrCat("there", async);
      RunTask(model, point, {.load = one, .save = there, .async = async, .alone = true});
      CHECK(Difference(one, there / CheckpointName(1)) == "");
      CHECK(!fs::exists(there / "elsewhere"));
    }
  }
}

TEST_CASE("checkpoint: what does not fit is refused, by name") {
  const TempFolder folder;
  RunTask(Model(), {}, {.steps = {1}, .save = folder.path()});
  const fs::path saved = folder.path() / CheckpointName(1);
  const auto error_of = [&](const TinyOptions& options) {
    const auto backend = MakeCpu();
    TinyTrainer trainer(*backend, options);
    const auto shards = ModelShards::Single(*backend, Stream(), *trainer.model);
    CheckpointReader reader = *CheckpointReader::Open(saved);
    return std::string(
        LoadCheckpoint(*backend, Stream(), reader, *trainer.model, *shards, *trainer.optimizer).message());
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(error_of(Model()) == "");
  TinyOptions larger = Model();
  larger.config.vocab_size += 1;
  CHECK(has(error_of(larger), "model.embed_tokens.weight: found f32 [97, 48], expected f32 [98, 48]"));
  TinyOptions fewer = Model();
  fewer.trainable = [](const std::string& name) { return name.find("mlp") != std::string::npos; };
  CHECK(has(error_of(fewer), "this run does not train it"));
  TinyOptions lion = Model();
  lion.optimizer.kind = OptimizerKind::kLion;
  CHECK(has(error_of(lion), "the checkpoint has other states of the optimizer"));
  TinyOptions lora = Model();
  lora.lora = true;
  CHECK(has(error_of(lora), "the checkpoint does not have it"));
}

TEST_SUITE_END();

}  // namespace
}  // namespace ftune::testing
