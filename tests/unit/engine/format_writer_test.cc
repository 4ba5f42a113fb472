// Writing Hugging Face folders and shards.
#include <doctest/doctest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/safetensors.h"
#include "base/strings.h"
#include "engine/format/config_reader.h"
#include "engine/format/config_writer.h"
#include "engine/format/hf_writer.h"
#include "engine/format/rope_reader.h"
#include "engine/format/shard_writer.h"
#include "tests/unit/base/gguf_builder.h"
#include "tests/unit/base/temp_folder.h"

namespace ftune {
namespace {

using nlohmann::json;

std::filesystem::path Golden(const char* name) {
  return std::filesystem::path(FTUNE_SOURCE_DIR) / "tests/golden/models" / name;
}

// The base's own tensors.
std::vector<OutputTensor> Same(const ModelFiles& model) {
  std::vector<OutputTensor> tensors;
  for (const SourceTensor& tensor : model.weights->tensors()) {
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, [&tensor](std::byte* out) {
                         CopySourceTensor(tensor, out);
                         return absl::OkStatus();
                       }});
  }
  return tensors;
}

void CheckEqual(const ModelFiles& a, const ModelFiles& b) {
  CHECK(a.config == b.config);
  REQUIRE(a.weights->tensors().size() == b.weights->tensors().size());
  for (const SourceTensor& tensor : a.weights->tensors()) {
    INFO(tensor.name);
    const SourceTensor* other = b.weights->Find(tensor.name);
    REQUIRE(other != nullptr);
    CHECK(other->dtype == tensor.dtype);
    CHECK(other->shape == tensor.shape);
    REQUIRE(other->bytes.size() == tensor.bytes.size());
    CHECK(std::memcmp(other->bytes.data(), tensor.bytes.data(), tensor.bytes.size()) == 0);
  }
}

std::set<std::string> Names(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

OutputTensor Constant(const std::string& name, DType dtype, std::vector<int64_t> shape) {
  int64_t bytes = BlockBytes(dtype);
  for (const int64_t dim : shape) bytes *= dim;
  const char fill = name[0];
  return {name, dtype, std::move(shape), [=](std::byte* out) {
            std::memset(out, fill, bytes);
            return absl::OkStatus();
          }};
}

TEST_CASE("writer: a model written again is the same, in one file or in shards") {
  for (const char* name :
       {"llama", "llama3", "llama-linear", "mistral", "qwen2", "qwen2-window", "smollm2"}) {
    for (const int64_t shard : {int64_t{1} << 40, int64_t{20'000}}) {
      INFO(name, " ", shard);
      const auto base = OpenModel(Golden(name));
      REQUIRE(base.ok());
      TempFolder folder;
      REQUIRE(WriteHfModel(*base, folder / "deep/out", Same(*base), shard).ok());
      const auto again = OpenModel(folder / "deep/out");
      REQUIRE(again.ok());
      CheckEqual(*base, *again);
      CHECK(std::filesystem::exists(folder / "deep/out/model.safetensors") == (shard > 20'000));
      CHECK(std::filesystem::exists(folder / "deep/out/model.safetensors.index.json") == (shard == 20'000));
    }
  }
}

TEST_CASE("writer: tokenizer files and generation_config.json are copied byte for byte") {
  const auto base = OpenModel(Golden("tiny-chat"));
  REQUIRE(base.ok());
  TempFolder folder;
  REQUIRE(WriteHfModel(*base, folder.path(), Same(*base)).ok());
  CHECK(Names(folder.path()) == Names(Golden("tiny-chat")));
  for (const std::string& name : Names(Golden("tiny-chat"))) {
    if (name == "model.safetensors" || name == "config.json") continue;
    INFO(name);
    CHECK(ReadBytes(folder / name) == ReadBytes(Golden("tiny-chat") / name));
  }
}

TEST_CASE("writer: config.json keeps all but its dtype, in its own dialect") {
  const std::string sizes =
      R"("model_type": "llama", "vocab_size": 8, "hidden_size": 8, "intermediate_size": 8,
         "num_hidden_layers": 1, "num_attention_heads": 1)";
  const auto changed = [&](const std::string& fields) {
    const std::string text = StrCat("{", fields, ", ", sizes, "}");
    const ModelConfig config = *ParseHfConfig(json::parse(text), "config.json");
    return *UpdateConfigJson(text, config, DType::kBF16, "config.json");
  };
  CHECK(changed(R"("z": 1e-05, "torch_dtype": "float32", "a": [1.0, 2], "rope_theta": 500000.0)")
            .starts_with("{\n  \"z\": 1e-05,\n  \"torch_dtype\": \"bfloat16\",\n  \"a\": [\n    1.0,\n    2\n"
                         "  ],\n  \"rope_theta\": 500000.0,\n  \"model_type\": \"llama\",\n"));
  json json = json::parse(changed(R"("dtype": "float16", "rope_parameters": {})"));
  CHECK(json["dtype"] == "bfloat16");
  CHECK_FALSE(json.contains("torch_dtype"));
  json = json::parse(changed(R"("rope_parameters": {})"));
  CHECK(json["dtype"] == "bfloat16");
  CHECK_FALSE(json.contains("torch_dtype"));
  json = json::parse(changed(R"("rope_theta": 1)"));
  CHECK(json["torch_dtype"] == "bfloat16");
  CHECK_FALSE(json.contains("dtype"));
  CHECK(NotSaid(UpdateConfigJson("{\n1", {}, DType::kF32, "c.json").status(), "c.json:2") == "");
}

TEST_CASE("writer: other rotary settings than the base's go into config.json, in its dialect") {
  for (const char* name : {"llama", "llama3", "qwen2-window"}) {
    INFO(name);
    auto base = OpenModel(Golden(name));
    REQUIRE(base.ok());
    const bool new_dialect = json::parse(base->config_json).contains("rope_parameters");
    for (const RopeConfig& rope :
         {RopeConfig{.theta = 77.0}, RopeConfig{.kind = RopeKind::kLinear, .theta = 5.0, .factor = 4.0},
          RopeConfig{.kind = RopeKind::kLlama3, .factor = 8.0, .original_max_position = 32}}) {
      base->config.rope = rope;
      TempFolder folder;
      REQUIRE(WriteHfModel(*base, folder.path(), Same(*base)).ok());
      const auto again = OpenModel(folder.path());
      REQUIRE(again.ok());
      CHECK(again->config == base->config);
      CHECK(json::parse(again->config_json).contains("rope_parameters") == new_dialect);
      CHECK(json::parse(again->config_json).contains("rope_theta") == !new_dialect);
    }
  }
}

TEST_CASE("writer: the dtype in config.json is the weights'") {
  const auto base = OpenModel(Golden("smollm2"));
  REQUIRE(base.ok());
  TempFolder folder;
  REQUIRE(WriteHfModel(
              *base, folder.path(),
              std::vector<OutputTensor>{Constant("n", DType::kF32, {8}), Constant("w", DType::kF16, {8, 8})})
              .ok());
  const json config = json::parse(ReadBytes(folder / "config.json"));
  CHECK((config.value("torch_dtype", "") == "float16" || config.value("dtype", "") == "float16"));
}

TEST_CASE("writer: a tied head is stored once") {
  const auto base = OpenModel(Golden("smollm2"));
  REQUIRE(base->config.tied_head);
  TempFolder folder;
  std::vector<OutputTensor> tensors = Same(*base);
  tensors.push_back(Constant("lm_head.weight", DType::kF32, {71, 36}));
  REQUIRE(WriteHfModel(*base, folder.path(), tensors).ok());
  CHECK(SafetensorsFile::Open(folder / "model.safetensors")->Find("lm_head.weight") == nullptr);
}

TEST_CASE("writer: never over the base") {
  TempFolder folder;
  std::filesystem::copy(Golden("smollm2"), folder / "m");
  const auto base = OpenModel(folder / "m");
  REQUIRE(base.ok());
  const std::string before = ReadBytes(folder / "m/model.safetensors");
  CHECK(NotSaid(WriteHfModel(*base, folder / "x/../m", Same(*base)), "another folder") == "");
  CHECK(ReadBytes(folder / "m/model.safetensors") == before);
  WriteBytes(folder / "file", "");
  CHECK(NotSaid(WriteHfModel(*base, folder / "file", Same(*base)), "file") == "");
}

TEST_CASE("writer: a tensor that fails leaves no config.json") {
  const auto base = OpenModel(Golden("smollm2"));
  TempFolder folder;
  std::vector<OutputTensor> tensors = Same(*base);
  tensors.back().fill = [](std::byte*) { return absl::InternalError("no bytes"); };
  CHECK(NotSaid(WriteHfModel(*base, folder.path(), tensors), "no bytes") == "");
  CHECK_FALSE(std::filesystem::exists(folder / "config.json"));
  CHECK_FALSE(std::filesystem::exists(folder / "model.safetensors"));
}

TEST_CASE("writer: shards are filled in order, and a large tensor has one of its own") {
  TempFolder folder;
  WriteBytes(folder / "model.safetensors", "stale");
  WriteBytes(folder / "model-00001-of-00009.safetensors", "stale");
  WriteBytes(folder / "model-notes.safetensors", "kept");
  const std::vector<OutputTensor> tensors = {
      Constant("a", DType::kF32, {4}), Constant("b", DType::kBF16, {3}), Constant("big", DType::kF32, {100}),
      Constant("c", DType::kBF16, {4}), Constant("d", DType::kF32, {4})};
  REQUIRE(WriteShards(folder.path(), tensors, 24).ok());
  CHECK(Names(folder.path()) ==
        std::set<std::string>{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                              "model-00003-of-00003.safetensors", "model.safetensors.index.json",
                              "model-notes.safetensors"});
  const json index = json::parse(ReadBytes(folder / "model.safetensors.index.json"));
  CHECK(index["metadata"]["total_size"] == 16 + 6 + 400 + 8 + 16);
  CHECK(index["weight_map"]["b"] == "model-00001-of-00003.safetensors");
  CHECK(index["weight_map"]["big"] == "model-00002-of-00003.safetensors");
  const auto last = SafetensorsFile::Open(folder / "model-00003-of-00003.safetensors");
  REQUIRE(last.ok());
  CHECK(static_cast<char>(last->Find("c")->bytes[0]) == 'c');
  for (const SafetensorsEntry& entry : last->entries()) {  // aligned to the element
    CHECK(reinterpret_cast<uintptr_t>(entry.bytes.data()) % BlockBytes(*entry.dtype) == 0);
  }
  REQUIRE(WriteShards(folder.path(), tensors, 1000).ok());
  CHECK(Names(folder.path()) == std::set<std::string>{"model.safetensors", "model-notes.safetensors"});
  const std::vector<OutputTensor> large_first = {tensors[2], tensors[0]};
  REQUIRE(WriteShards(folder.path(), large_first, 24).ok());
  CHECK(Names(folder.path()).contains("model-00002-of-00002.safetensors"));
  const std::vector<OutputTensor> twice = {tensors[0], tensors[0]};
  CHECK_FALSE(WriteShards(folder.path(), twice, 1000).ok());
}

TEST_CASE("writer: config.json made from a ModelConfig reads back as it") {
  for (const char* name : {"llama", "llama3", "llama-linear", "mistral", "qwen2", "smollm2"}) {
    INFO(name);
    const ModelConfig config = OpenModel(Golden(name))->config;
    const std::string text = MakeConfigJson(config, DType::kBF16);
    const auto again = ParseHfConfig(json::parse(text), "config.json");
    REQUIRE(again.ok());
    CHECK(*again == config);
    CHECK(json::parse(text)["torch_dtype"] == "bfloat16");
    CHECK(json::parse(text)["rms_norm_eps"].dump().size() < 8);  // 1e-05, not the float's exact value
  }
}

TEST_CASE("writer: a GGUF base becomes a whole Hugging Face folder") {
  TempFolder folder;
  GgufBuilder builder;
  builder.Text("general.architecture", "llama").Int("llama.embedding_length", 4).Int("llama.block_count", 1);
  builder.Int("llama.feed_forward_length", 4)
      .Int("llama.context_length", 32)
      .Int("llama.attention.head_count", 1);
  builder.Float("llama.attention.layer_norm_rms_epsilon", 1e-5f).Int("tokenizer.ggml.eos_token_id", 1);
  builder.Text("tokenizer.ggml.model", "gpt2").Text("tokenizer.ggml.pre", "smollm");
  builder.Texts("tokenizer.ggml.tokens", {"a", "<e>"}).Ints("tokenizer.ggml.token_type", {1, 3});
  builder.Texts("tokenizer.ggml.merges", {}).Tensor("token_embd.weight", {4, 2}, 0, std::string(32, 'e'));
  builder.Tensor("blk.0.attn_q.weight", {4, 4}, 0, std::string(64, 'q'));
  WriteBytes(folder / "m.gguf", builder.Build());
  const auto base = OpenModel(folder / "m.gguf");
  REQUIRE(base.ok());
  REQUIRE(WriteHfModel(*base, folder / "out", Same(*base)).ok());
  CHECK(Names(folder / "out") == std::set<std::string>{"config.json", "generation_config.json",
                                                       "model.safetensors", "tokenizer.json",
                                                       "tokenizer_config.json"});
  const auto again = OpenModel(folder / "out");
  REQUIRE(again.ok());
  CHECK(again->config == base->config);
  CHECK(again->weights->Find("model.embed_tokens.weight")->bytes.size() == 32);
}

}  // namespace
}  // namespace ftune
