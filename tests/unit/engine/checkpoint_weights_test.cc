// What a checkpoint has in the place of a model's weights and of an adapter's.
#include "engine/checkpoint/checkpoint_weights.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/convert.h"
#include "base/random.h"
#include "engine/format/loaded_model.h"
#include "engine/format/model_tensors.h"
#include "tests/unit/engine/checkpoint_builder.h"
#include "tests/unit/engine/ranks.h"
#include "tests/unit/engine/tiny.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;
using testing::BuiltTensor;
using testing::Elements;
using testing::Floats;
using testing::MakeCpu;
using testing::RandomTiling;
using testing::WriteCheckpoint;

fs::path Golden(const std::string& name) { return fs::path(FTUNE_SOURCE_DIR) / "tests/golden/models" / name; }

std::vector<float> RandomValues(const std::vector<int64_t>& shape, RandomSequence& random) {
  std::vector<float> values(static_cast<size_t>(Elements(shape)));
  for (float& value : values) value = random.Uniform() - 0.5f;
  return values;
}

// A tensor of random values in random slices.
BuiltTensor Random(const std::string& name, const std::vector<int64_t>& shape, RandomSequence& random) {
  BuiltTensor tensor = Floats(name, shape, RandomValues(shape, random));
  for (Region& region : RandomTiling(shape, 5, random))
    tensor.slices.push_back({std::move(region), random.Below(3)});
  return tensor;
}

std::vector<BuiltTensor> RandomTensors(const std::vector<ParameterShape>& shapes, RandomSequence& random) {
  std::vector<BuiltTensor> tensors;
  for (const ParameterShape& p : shapes) tensors.push_back(Random(p.name, p.shape, random));
  return tensors;
}

absl::StatusOr<LoadedModel> Load(Backend& backend, const std::string& model, const fs::path& checkpoint,
                                 LoadModelOptions options = {}) {
  auto weights = CheckpointWeights::Open(checkpoint);
  REQUIRE_MESSAGE(weights.ok(), std::string(weights.status().message()));
  options.trained.push_back(*weights);
  return LoadModel(backend, Stream(), Golden(model), options);
}

std::vector<std::byte> ValueOf(Backend& backend, Model& model, const std::string& name) {
  const Parameter* p = model.Find(name);
  REQUIRE(p != nullptr);
  std::vector<std::byte> bytes(static_cast<size_t>(BytesFor(p->dtype, p->size())));
  backend.Download(Stream(), p->value, bytes);
  return bytes;
}

TEST_CASE("a checkpoint's values are the model's, to the bit") {
  RandomSequence random(41, 1);
  for (const char* name : {"llama", "gemma2", "gpt2", "phi3"}) {
    const TempFolder folder;
    const auto files = OpenModel(Golden(name));
    REQUIRE(files.ok());
    const auto tensors = RandomTensors(ModelParameters(files->config), random);
    WriteCheckpoint(folder.path(), 5, tensors);
    const auto backend = MakeCpu();
    auto loaded = Load(*backend, name, folder.path());
    REQUIRE_MESSAGE(loaded.ok(), std::string(loaded.status().message()));
    for (const BuiltTensor& tensor : tensors)
      CHECK_MESSAGE(ValueOf(*backend, *loaded->model, tensor.name) == tensor.bytes, name, " ", tensor.name);
  }
}

TEST_CASE("what a checkpoint does not have is the base's; later ones go before earlier ones") {
  RandomSequence random(42, 1);
  const TempFolder first, second;
  const auto files = OpenModel(Golden("llama"));
  REQUIRE(files.ok());
  const std::string norm = "model.norm.weight", up = "model.layers.0.mlp.up_proj.weight",
                    down = "model.layers.0.mlp.down_proj.weight";
  const auto shape = [&](const std::string& name) { return files->weights->Find(name)->shape; };
  const std::vector<BuiltTensor> a = {Random(norm, shape(norm), random), Random(up, shape(up), random)};
  const std::vector<BuiltTensor> b = {Random(up, shape(up), random)};
  WriteCheckpoint(first.path(), 5, a);
  WriteCheckpoint(second.path(), 6, b);
  const auto backend = MakeCpu();
  LoadModelOptions options;
  options.trained = {*CheckpointWeights::Open(first.path())};
  auto loaded = Load(*backend, "llama", second.path(), options);
  REQUIRE_MESSAGE(loaded.ok(), std::string(loaded.status().message()));
  CHECK(ValueOf(*backend, *loaded->model, norm) == a[0].bytes);
  CHECK(ValueOf(*backend, *loaded->model, up) == b[0].bytes);
  auto base = LoadModel(*backend, Stream(), Golden("llama"), {});
  REQUIRE(base.ok());
  CHECK(ValueOf(*backend, *loaded->model, down) == ValueOf(*backend, *base->model, down));
}

TEST_CASE("values that a model in another type takes are rounded") {
  RandomSequence random(43, 1);
  const TempFolder folder;
  const BuiltTensor norm =
      Random("model.norm.weight", {OpenModel(Golden("llama"))->config.hidden_size}, random);
  WriteCheckpoint(folder.path(), 5, {norm});
  const auto backend = MakeCpu();
  auto loaded = Load(*backend, "llama", folder.path(),
                     {.trainable = [](const std::string&) { return true; }, .trainable_dtype = DType::kBF16});
  REQUIRE(loaded.ok());
  std::vector<std::byte> want(norm.bytes.size() / 2);
  ConvertFromF32(DType::kBF16, reinterpret_cast<const float*>(norm.bytes.data()), std::ssize(want) / 2,
                 want.data());
  CHECK(ValueOf(*backend, *loaded->model, norm.name) == want);
}

TEST_CASE("a checkpoint of another model is an error that names the tensor") {
  RandomSequence random(44, 1);
  const auto backend = MakeCpu();
  const auto says = [&](const BuiltTensor& tensor, const std::string& part, LoadModelOptions options = {}) {
    const TempFolder folder;
    WriteCheckpoint(folder.path(), 5, {tensor});
    CHECK(NotSaid(Load(*backend, "llama", folder.path(), options).status(), tensor.name, part,
                  (folder / kManifestName).string()) == "");
    options.streamed = true;
    CHECK(NotSaid(Load(*backend, "llama", folder.path(), options).status(), tensor.name, part) == "");
  };
  says(Random("model.layers.99.mlp.up_proj.weight", {4, 4}, random), "no such parameter");
  says(Random("model.norm.weight", {7}, random), "shape [7]");
  says(Random("model.layers.0.mlp.up_proj.lora_A.weight", {4, 4}, random), "no such parameter");
  BuiltTensor numbers = Random("model.norm.weight", {OpenModel(Golden("llama"))->config.hidden_size}, random);
  numbers.dtype = DType::kI32;
  says(numbers, "dtype");
}

// The adapter's parameters and what is trained beside it.
std::vector<ParameterShape> TrainedOf(const ModelConfig& config, const LoraOptions& lora) {
  const auto targets = LoraTargets::Resolve(lora, config);
  REQUIRE(targets.ok());
  std::vector<ParameterShape> trained = AdaptedModelParameters(config, MakeLoraFactories(lora, *targets));
  std::erase_if(trained, [&](const ParameterShape& p) {
    return !IsAdapterParameter(p.name) && !targets->Saves(p.name);
  });
  return trained;
}

TEST_CASE("a checkpoint's adapter, with what is trained beside it") {
  using Names = std::vector<std::string>;
  RandomSequence random(45, 1);
  const auto files = OpenModel(Golden("llama"));
  REQUIRE(files.ok());
  const std::vector<LoraOptions> kinds = {
      {.rank = 3},
      {.rank = 3, .dora = true},
      {.rank = 2, .target_modules = Names{"q_proj", "embed_tokens"}, .modules_to_save = {"norm"}}};
  for (const LoraOptions& lora : kinds) {
    ModelConfig config = files->config;
    const TempFolder folder;
    const std::vector<BuiltTensor> tensors = RandomTensors(TrainedOf(config, lora), random);
    WriteCheckpoint(folder.path(), 5, tensors);
    for (const bool quantized : {false, true}) {
      const auto backend = MakeCpu();
      LoadModelOptions options = {.lora = lora};
      if (quantized) options.quantize = DType::kNF4;
      auto loaded = Load(*backend, "llama", folder.path(), options);
      REQUIRE_MESSAGE(loaded.ok(), std::string(loaded.status().message()));
      for (const BuiltTensor& tensor : tensors)
        CHECK_MESSAGE(ValueOf(*backend, *loaded->model, tensor.name) == tensor.bytes, tensor.name);
    }
    // Each of the adapter's must be there.
    const auto lost = std::find_if(tensors.begin(), tensors.end(),
                                   [](const BuiltTensor& t) { return IsAdapterParameter(t.name); });
    std::vector<BuiltTensor> fewer = tensors;
    fewer.erase(fewer.begin() + (lost - tensors.begin()));
    const TempFolder other;
    WriteCheckpoint(other.path(), 5, fewer);
    const auto backend = MakeCpu();
    CHECK(NotSaid(Load(*backend, "llama", other.path(), {.lora = lora}).status(), lost->name, "lacks") == "");
  }
}

// A head that parts from the embedding begins as what the embedding was trained to be.
TEST_CASE("a tied head parts from the embedding of a checkpoint") {
  RandomSequence random(46, 1);
  const auto files = OpenModel(Golden("gemma"));
  REQUIRE(files.ok());
  REQUIRE(files->config.tied_head);
  const TempFolder folder;
  const std::vector<BuiltTensor> tensors = RandomTensors(ModelParameters(files->config), random);
  WriteCheckpoint(folder.path(), 5, tensors);
  const auto backend = MakeCpu();
  auto loaded = Load(*backend, "gemma", folder.path(),
                     {.lora = LoraOptions{.rank = 2, .target_modules = std::vector<std::string>{"lm_head"}},
                      .for_merging = true});
  REQUIRE_MESSAGE(loaded.ok(), std::string(loaded.status().message()));
  const auto embedding = std::find_if(tensors.begin(), tensors.end(), [](const BuiltTensor& t) {
    return t.name == "model.embed_tokens.weight";
  });
  CHECK(ValueOf(*backend, *loaded->model, "lm_head.weight") == embedding->bytes);
  CHECK(ValueOf(*backend, *loaded->model, "model.embed_tokens.weight") == embedding->bytes);
}

TEST_CASE("each rank of the tensor axis takes its slices of a checkpoint") {
  RandomSequence random(47, 1);
  const auto files = OpenModel(Golden("llama"));
  REQUIRE(files.ok());
  const LoraOptions lora = {.rank = 3};
  const TempFolder folder;
  const std::vector<BuiltTensor> tensors = RandomTensors(TrainedOf(files->config, lora), random);
  WriteCheckpoint(folder.path(), 5, tensors);
  testing::RunRanks({.tensor = 2}, [&](Mesh& mesh) {
    const auto backend = MakeCpu();
    auto loaded = Load(*backend, "llama", folder.path(),
                       {.tensor = TensorAxis(mesh.axis(MeshAxis::kTensor), false), .lora = lora});
    REQUIRE_MESSAGE(loaded.ok(), std::string(loaded.status().message()));
    for (const OutputTensor& tensor : AdapterTensors(*backend, Stream(), *loaded->model, *loaded->targets)) {
      std::vector<std::byte> got(static_cast<size_t>(BytesFor(tensor.dtype, Elements(tensor.shape))));
      REQUIRE(tensor.fill(got.data()).ok());
      const auto want = std::find_if(tensors.begin(), tensors.end(),
                                     [&](const BuiltTensor& t) { return t.name == tensor.name; });
      REQUIRE(want != tensors.end());
      CHECK_MESSAGE(got == want->bytes, tensor.name);
    }
  });
}

}  // namespace
}  // namespace ftune
