// Models of two hosts told apart by what their files hold.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/folder.h"
#include "base/strings.h"
#include "engine/format/model_fingerprint.h"
#include "engine/format/shard_writer.h"
#include "tests/unit/base/gguf_builder.h"
#include "tests/unit/base/temp_folder.h"

namespace ftune {
namespace {

constexpr char kConfig[] =
    R"({"model_type": "llama", "vocab_size": 64, "hidden_size": 64, "intermediate_size": 4, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": false})";

struct TestTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::string bytes;
};

std::string Floats(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += Bytes(static_cast<float>(i));
  return bytes;
}

// Behind what counts as a header, more than is read of a tensor, and less.
std::vector<TestTensor> Tensors() {
  return {{"model.first", DType::kF32, {128, 128}, Floats(128 * 128)},
          {"model.large", DType::kF32, {64, 64}, Floats(64 * 64)},
          {"model.small", DType::kF32, {4}, Floats(4)}};
}

std::vector<FileFingerprint> FingerprintOf(const std::vector<TestTensor>& tensors,
                                           const std::string& config = kConfig, int64_t shard = 1 << 30) {
  TempFolder folder;
  WriteBytes(folder / "config.json", config);
  std::vector<OutputTensor> outputs;
  for (const TestTensor& tensor : tensors) {
    outputs.push_back({tensor.name, tensor.dtype, tensor.shape, [&tensor](std::byte* out) {
                         std::memcpy(out, tensor.bytes.data(), tensor.bytes.size());
                         return absl::OkStatus();
                       }});
  }
  REQUIRE(WriteShards(folder.path(), outputs, shard).ok());
  auto found = FingerprintModel(folder.path());
  REQUIRE_MESSAGE(found.ok(), std::string(found.status().message()));
  for (FileFingerprint& file : *found) file.path = std::filesystem::path(file.path).filename();
  return *std::move(found);
}

std::vector<uint64_t> Hashes(const std::vector<FileFingerprint>& files) {
  std::vector<uint64_t> hashes;
  for (const FileFingerprint& file : files) hashes.push_back(file.hash);
  return hashes;
}

TEST_CASE("fingerprint: a folder's files, wherever it is") {
  const std::vector<FileFingerprint> files = FingerprintOf(Tensors());
  REQUIRE(files.size() == 2);
  CHECK(files[0].path == "config.json");
  CHECK(files[0].bytes == std::strlen(kConfig));
  CHECK(files[1].path == "model.safetensors");
  CHECK(files[1].bytes > 5 * 64 * 64 * 4);
  CHECK(Hashes(FingerprintOf(Tensors())) == Hashes(files));
  const std::vector<FileFingerprint> shards = FingerprintOf(Tensors(), kConfig, 128 * 128 * 4);
  REQUIRE(shards.size() == 3);
  CHECK(shards[1].path == "model-00001-of-00002.safetensors");
  CHECK(shards[2].path == "model-00002-of-00002.safetensors");
}

TEST_CASE("fingerprint: what differs shows in the file where it is") {
  const std::vector<uint64_t> same = Hashes(FingerprintOf(Tensors()));
  const std::vector<uint64_t> config = Hashes(FingerprintOf(Tensors(), StrCat(kConfig, " ")));
  CHECK(config[0] != same[0]);
  CHECK(config[1] == same[1]);

  std::vector<std::vector<TestTensor>> others(7, Tensors());
  others[0][1].bytes.back() ^= 1;
  others[1][1].bytes.front() ^= 1;
  others[2][2].bytes[7] ^= 1;
  // All of it, but for a little here and there: another training.
  for (size_t i = 0; i < others[3][1].bytes.size(); i += 40) others[3][1].bytes[i] ^= 1;
  others[4][2].name = "model.other";
  others[5][2].shape = {2, 2};
  others[6][2].dtype = DType::kI32;
  for (size_t i = 0; i < others.size(); ++i) {
    const std::vector<uint64_t> other = Hashes(FingerprintOf(others[i]));
    CHECK_MESSAGE(other[1] != same[1], i);
    CHECK_MESSAGE(other[0] == same[0], i);
  }
}

TEST_CASE("fingerprint: a .gguf file, of any type") {
  const auto fingerprint_of = [](float epsilon, const std::string& quantized) {
    GgufBuilder builder;
    builder.Text("general.architecture", "llama").Int("llama.embedding_length", 32);
    builder.Int("llama.feed_forward_length", 6).Int("llama.block_count", 1).Int("llama.context_length", 128);
    builder.Int("llama.attention.head_count", 2).Float("llama.attention.layer_norm_rms_epsilon", epsilon);
    constexpr int kQ8 = 8;  // blocks of 32 values in 34 bytes
    builder.Tensor("token_embd.weight", {32, 1}, kQ8, quantized);
    TempFolder folder;
    WriteBytes(folder / "m.gguf", builder.Build());
    auto found = FingerprintModel(folder / "m.gguf");
    REQUIRE_MESSAGE(found.ok(), std::string(found.status().message()));
    REQUIRE(found->size() == 1);
    CHECK(std::filesystem::path(found->front().path).filename() == "m.gguf");
    return found->front().hash;
  };
  const std::string block(34, 'q'), other = std::string(33, 'q') + "r";
  CHECK(fingerprint_of(1e-5f, block) == fingerprint_of(1e-5f, block));
  CHECK(fingerprint_of(1e-5f, block) != fingerprint_of(1e-5f, other));
  CHECK(fingerprint_of(1e-5f, block) != fingerprint_of(1e-6f, block));
}

TEST_CASE("fingerprint: no model, no adapter") {
  TempFolder folder;
  CHECK(NotSaid(FingerprintModel(folder.path()).status(), folder.path().string(), "config.json") == "");
  CHECK(NotSaid(FingerprintModel(folder / "none").status(), "none", "no such model") == "");
  CHECK(NotSaid(FingerprintAdapter(folder.path()).status(), "adapter_config.json") == "");
}

}  // namespace
}  // namespace ftune
