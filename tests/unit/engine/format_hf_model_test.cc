// Opening Hugging Face folders.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/format/hf_model.h"
#include "engine/format/shard_writer.h"
#include "tests/unit/base/material.h"
#include "tests/unit/base/temp_folder.h"

namespace ftune {
namespace {

using nlohmann::json;

const char kConfig[] =
    R"({"model_type": "llama", "vocab_size": 4, "hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": )";

std::string Config(bool tied) { return std::string(kConfig) + (tied ? "true}" : "false}"); }

// Its bytes are the first letter of `fill`.
OutputTensor Tensor(const std::string& name, char fill, std::vector<int64_t> shape = {4, 4}) {
  int64_t bytes = 4;
  for (const int64_t dim : shape) bytes *= dim;
  return {name, DType::kF32, std::move(shape), [=](std::byte* out) {
            std::memset(out, fill, bytes);
            return absl::OkStatus();
          }};
}

void WriteTensors(const TempFolder& folder, std::vector<OutputTensor> tensors, int64_t shard = 1 << 30) {
  REQUIRE(WriteShards(folder.path(), tensors, shard).ok());
}

absl::Status Refused(const std::filesystem::path& path) { return OpenModel(path).status(); }

TEST_CASE("model: a folder with one file") {
  TempFolder folder;
  WriteBytes(folder / "config.json", Config(false));
  WriteTensors(folder, {Tensor("model.b", 'b'), Tensor("lm_head.weight", 'h'),
                        Tensor("model.layers.0.self_attn.rotary_emb.inv_freq", 'r', {1})});
  const auto model = OpenModel(folder.path());
  REQUIRE(model.ok());
  CHECK(model->config.hidden_size == 4);
  CHECK_FALSE(model->is_gguf);
  CHECK(model->config_json == Config(false));
  CHECK(model->weights->tensors().size() == 2);  // without the buffer
  const SourceTensor* b = model->weights->Find("model.b");
  REQUIRE(b != nullptr);
  CHECK(b->shape == std::vector<int64_t>{4, 4});
  CHECK(b->dtype == DType::kF32);
  std::string copy(b->bytes.size(), '\0');
  CopySourceTensor(*b, reinterpret_cast<std::byte*>(copy.data()));
  CHECK(copy == std::string(64, 'b'));
  CHECK(NotSaid(model->weights->Get("model.c").status(), folder.path().string(), "model.c",
                "no such tensor") == "");
}

TEST_CASE("model: shards, and an index that agrees with them") {
  TempFolder folder;
  WriteBytes(folder / "config.json", Config(false));
  WriteTensors(folder, {Tensor("a", 'a'), Tensor("b", 'b'), Tensor("c", 'c')}, 128);
  CHECK(std::filesystem::exists(folder / "model-00002-of-00002.safetensors"));
  const auto model = OpenModel(folder.path());
  REQUIRE(model.ok());
  CHECK(model->weights->tensors().size() == 3);
  CHECK(static_cast<char>(model->weights->Find("c")->bytes[0]) == 'c');

  const std::filesystem::path index = folder / "model.safetensors.index.json";
  const json sound = json::parse(ReadBytes(index));
  json changed = sound;
  changed["weight_map"]["d"] = "model-00001-of-00002.safetensors";
  WriteBytes(index, changed.dump());
  CHECK(NotSaid(Refused(folder.path()), "index.json", "d: ", "not in the shard") == "");
  changed = sound;
  changed["weight_map"]["a"] = "model-00002-of-00002.safetensors";  // is in the first
  WriteBytes(index, changed.dump());
  CHECK(NotSaid(Refused(folder.path()), "a: ", "not in the shard", "it in", "00001-of") == "");
  changed = sound;
  changed["weight_map"]["c"] = "model-00003-of-00002.safetensors";
  WriteBytes(index, changed.dump());
  CHECK(NotSaid(Refused(folder.path()), "model-00003-of-00002.safetensors", "missing") == "");
  changed["weight_map"]["c"] = "../model.safetensors";
  WriteBytes(index, changed.dump());
  CHECK(NotSaid(Refused(folder.path()), "weight_map.c", "same folder") == "");
  WriteBytes(index, R"({"weight_map": {}})");
  CHECK(NotSaid(Refused(folder.path()), "weight_map", "empty") == "");
  WriteBytes(index, "{\n\"weight_map\": x");
  CHECK(NotSaid(Refused(folder.path()), "index.json:2", "not valid JSON") == "");

  WriteBytes(index, sound.dump());
  REQUIRE(WriteSafetensors(folder / "model-00002-of-00002.safetensors",
                           std::vector<OutputTensor>{Tensor("c", 'c'), Tensor("a", 'x')})
              .ok());
  CHECK(NotSaid(Refused(folder.path()), "a: ", "also stands in") == "");
  const std::string shard = ReadBytes(folder / "model-00001-of-00002.safetensors");
  WriteBytes(folder / "model-00001-of-00002.safetensors", shard.substr(0, shard.size() - 1));
  CHECK(NotSaid(Refused(folder.path()), "model-00001-of-00002.safetensors",
                "b: ", "past the end of the file") == "");
}

TEST_CASE("model: a tied model that also stores its head") {
  TempFolder folder;
  WriteBytes(folder / "config.json", Config(true));
  WriteTensors(folder, {Tensor("model.embed_tokens.weight", 'e'), Tensor("lm_head.weight", 'e')});
  const auto model = OpenModel(folder.path());
  REQUIRE(model.ok());
  CHECK(model->weights->Find("lm_head.weight") == nullptr);
  CHECK(model->weights->Find("model.embed_tokens.weight") != nullptr);
  WriteTensors(folder, {Tensor("model.embed_tokens.weight", 'e'), Tensor("lm_head.weight", 'f')});
  CHECK(NotSaid(Refused(folder.path()), "lm_head.weight", "tie_word_embeddings") == "");
  WriteBytes(folder / "config.json", Config(false));
  CHECK(OpenModel(folder.path())->weights->Find("lm_head.weight") != nullptr);
}

TEST_CASE("model: a type that cannot be used matters only to who uses it") {
  TempFolder folder;
  WriteBytes(folder / "config.json", Config(false));
  const std::string header = R"({"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})";
  WriteBytes(folder / "model.safetensors", Bytes<uint64_t>(header.size()) + header + "xx");
  const auto model = OpenModel(folder.path());
  REQUIRE(model.ok());
  CHECK(NotSaid(model->weights->Get("a").status(), "model.safetensors", "a: ", "F8_E4M3", "BF16") == "");
}

TEST_CASE("model: what is not a model is told apart") {
  TempFolder folder;
  CHECK(NotSaid(Refused(folder / "none"), "none", "no such model") == "");
  CHECK(NotSaid(Refused(folder.path()), "no config.json") == "");
  WriteBytes(folder / "m.gguf", "");
  CHECK(NotSaid(Refused(folder.path()), "no config.json", "m.gguf") == "");
  CHECK(NotSaid(Refused(folder / "m.gguf"), "m.gguf", "GGUF") == "");
  WriteBytes(folder / "adapter_config.json", "{}");
  CHECK(NotSaid(Refused(folder.path()), "an adapter, not a model") == "");
  WriteBytes(folder / "config.json", Config(false));
  CHECK(NotSaid(Refused(folder.path()), "no weights", "model.safetensors") == "");
  WriteBytes(folder / "pytorch_model.bin", "");
  CHECK(NotSaid(Refused(folder.path()), "no weights", "pytorch_model.bin", "save_pretrained") == "");
  CHECK(NotSaid(Refused(folder / "config.json"), "not a model") == "");
  CHECK(ExitCodeOf(Refused(folder.path())) == 4);
}

TEST_CASE("model: rows of interleaved heads are put back in order") {
  // Two heads of four rows of two bytes; llama.cpp's converter stored rows 0 2 1 3 of each.
  const std::string stored = "aaccbbddeeggffhh";
  const SourceTensor tensor = {.name = "q",
                               .dtype = DType::kF16,
                               .shape = {8, 1},
                               .bytes = std::as_bytes(std::span(stored.data(), stored.size())),
                               .interleaved_heads = 2};
  std::string copy(16, '\0');
  CopySourceTensor(tensor, reinterpret_cast<std::byte*>(copy.data()));
  CHECK(copy == "aabbccddeeffgghh");
}

TEST_CASE("model: models written by transformers") {
  const std::filesystem::path folder = std::filesystem::path(FTUNE_SOURCE_DIR) / "tests/golden/models";
  for (const char* name :
       {"llama", "llama3", "llama-linear", "mistral", "qwen2", "qwen2-window", "smollm2"}) {
    INFO(name);
    const auto model = OpenModel(folder / name);
    REQUIRE(model.ok());
    const SourceTensor* embedding = model->weights->Find("model.embed_tokens.weight");
    REQUIRE(embedding != nullptr);
    CHECK(embedding->shape == std::vector<int64_t>{model->config.vocab_size, model->config.hidden_size});
    CHECK((model->weights->Find("lm_head.weight") == nullptr) == model->config.tied_head);
  }
}

TEST_CASE("model: a real one") {
  const auto path = Material("models/stories260K/derived_hf");
  if (!path) return;
  const auto model = OpenModel(*path);
  REQUIRE(model.ok());
  CHECK(model->config.num_layers == 5);
  CHECK(model->weights->Find("model.layers.4.mlp.up_proj.weight")->shape == std::vector<int64_t>{172, 64});
}

}  // namespace
}  // namespace ftune
