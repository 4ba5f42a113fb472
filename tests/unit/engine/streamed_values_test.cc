// A model of which one block at a time is in memory is the same model.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "engine/format/loaded_model.h"
#include "engine/format/model_tensors.h"
#include "engine/format/peft.h"
#include "engine/train/generate.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/engine/tiny.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;
using testing::MakeCpu;

fs::path Golden() { return fs::path(FTUNE_SOURCE_DIR) / "tests/golden"; }

std::vector<std::vector<std::byte>> Fill(const std::vector<OutputTensor>& tensors) {
  std::vector<std::vector<std::byte>> all;
  for (const OutputTensor& tensor : tensors) {
    const int64_t bytes = BytesFor(tensor.dtype, ftune::testing::Elements(tensor.shape));
    all.emplace_back(static_cast<size_t>(bytes));
    REQUIRE(tensor.fill(all.back().data()).ok());
  }
  return all;
}

struct Opened {
  std::unique_ptr<CpuBackend> backend = MakeCpu();
  LoadedModel loaded;

  Opened(const fs::path& model, LoadModelOptions options, bool streamed) {
    options.streamed = streamed;
    auto opened = LoadModel(*backend, Stream(), model, options);
    REQUIRE_MESSAGE(opened.ok(), model.string(), ": ", std::string(opened.status().message()));
    loaded = *std::move(opened);
  }
  std::vector<float> Logits() {
    const auto vocab = static_cast<int32_t>(loaded.files.config.vocab_size);
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < 11; ++i) ids.push_back((i * 7 + 3) % vocab);
    return AllLogits(*backend, Stream(), *loaded.model, ids);
  }
  std::vector<OutputTensor> Tensors(const LoraTargets* merged = nullptr) {
    return ModelTensors(*backend, Stream(), *loaded.model, DType::kF32, merged);
  }
};

// The weights of the largest block, and of the embedding where a head borrows from it.
int64_t MostAtOnce(const Model& model) {
  int64_t most = 0;
  const auto bytes = [&](size_t block) {
    const ParameterStore& store = std::as_const(*model.blocks()[block]).store();
    return AllocationBytes(store.frozen_bytes()) +
           AllocationBytes(BytesFor(store.trainable_dtype(), store.trainable_size()));
  };
  for (size_t i = 0; i < model.blocks().size(); ++i) {
    const std::optional<size_t> lender = model.lender(i);
    most = std::max(most, bytes(i) + (lender ? bytes(*lender) : 0));
  }
  return most;
}

void CheckSame(const fs::path& model, const LoadModelOptions& options) {
  INFO(model.string(), " ", options.adapters.empty() ? "" : options.adapters.front().string());
  Opened whole(model, options, false), streamed(model, options, true);
  CHECK(streamed.backend->ledger().current()[Category::kWeights] == 0);
  CHECK(streamed.Logits() == whole.Logits());
  CHECK(Fill(streamed.Tensors()) == Fill(whole.Tensors()));
  if (whole.loaded.targets) {
    const LoraTargets& targets = *whole.loaded.targets;
    CHECK(Fill(AdapterTensors(*streamed.backend, Stream(), *streamed.loaded.model, targets)) ==
          Fill(AdapterTensors(*whole.backend, Stream(), *whole.loaded.model, targets)));
    if (options.for_merging) CHECK(Fill(streamed.Tensors(&targets)) == Fill(whole.Tensors(&targets)));
  }
  CHECK(streamed.Logits() == whole.Logits());  // again, after all that
  CHECK(streamed.loaded.model->hooks().status().ok());
  const Ledger& ledger = streamed.backend->ledger();
  CHECK(ledger.peak()[Category::kWeights] <= MostAtOnce(*streamed.loaded.model));
  CHECK(ledger.peak()[Category::kWeights] < whole.backend->ledger().current()[Category::kWeights]);
}

TEST_CASE("models, one block at a time") {
  int models = 0;
  for (const auto& entry : fs::directory_iterator(Golden() / "models")) {
    if (!fs::exists(entry.path() / "config.json")) continue;
    CheckSame(entry.path(), {});
    ++models;
  }
  CHECK(models > 20);
}

TEST_CASE("models with adapters, one block at a time") {
  // Those beside the models, and one of each kind.
  std::vector<fs::path> adapters;
  for (const auto& entry : fs::directory_iterator(Golden() / "models")) {
    if (entry.path().filename().string().ends_with("-lora")) adapters.push_back(entry.path());
  }
  for (const auto& entry : fs::directory_iterator(Golden() / "adapters")) adapters.push_back(entry.path());
  CHECK(adapters.size() > 30);
  for (const fs::path& adapter : adapters) {
    std::string name = adapter.filename().string();
    if (name.ends_with("-lora")) {
      name.resize(name.size() - 5);
    } else {
      const auto config = ReadPeftConfig(adapter);
      REQUIRE(config.ok());
      name = config->base_model;
    }
    const fs::path model = Golden() / "models" / name;
    CheckSame(model, {.adapters = {adapter}});
    CheckSame(model, {.adapters = {adapter}, .for_merging = true});
    CheckSame(model, {.quantize = DType::kNF4, .adapters = {adapter}});
  }
}

TEST_CASE("an adapter that is streamed is not left out") {
  const fs::path model = Golden() / "models/llama", adapter = Golden() / "models/llama-lora";
  Opened whole(model, {.adapters = {adapter}}, false), streamed(model, {.adapters = {adapter}}, true);
  CHECK(whole.Logits() == streamed.Logits());
  CHECK(whole.Logits() != Opened(model, {}, true).Logits());
}

// Gives everything but one tensor, which is there until it is fetched.
class FailingWeights final : public WeightSource {
 public:
  FailingWeights(const fs::path& model, std::string name) : name_(std::move(name)) {
    auto files = OpenModel(model);
    REQUIRE(files.ok());
    weights_ = std::move(files->weights);
  }
  const std::vector<SourceTensor>& tensors() const override { return weights_->tensors(); }
  absl::StatusOr<SourceTensor> Fetch(const SourceTensor& tensor) const override {
    if (tensor.name == name_) return absl::DataLossError("no " + name_);
    return weights_->Fetch(tensor);
  }

 private:
  std::unique_ptr<WeightSource> weights_;
  std::string name_;
};

TEST_CASE("values that cannot be read make no results") {
  const fs::path model = Golden() / "models/llama";
  for (const char* name : {"model.embed_tokens.weight", "model.layers.1.mlp.up_proj.weight"}) {
    LoadModelOptions options;
    options.trained.push_back(std::make_shared<FailingWeights>(model, name));
    Opened streamed(model, options, true);
    CHECK(streamed.Logits().empty());
    CHECK(streamed.loaded.model->hooks().failed());
    CHECK(NotSaid(streamed.loaded.model->hooks().status(), name) == "");

    Opened again(model, options, true);
    std::vector<std::string> failed;
    std::vector<std::byte> out(1 << 20);
    for (const OutputTensor& tensor : again.Tensors()) {
      if (!tensor.fill(out.data()).ok()) failed.push_back(tensor.name);
    }
    CHECK(std::find(failed.begin(), failed.end(), name) != failed.end());
  }
}

}  // namespace
}  // namespace ftune
