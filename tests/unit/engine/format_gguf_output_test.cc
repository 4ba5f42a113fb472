// Whole models written as GGUF and read again.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "base/convert.h"
#include "base/ggml_quantize.h"
#include "base/gguf.h"
#include "data/tokenizer/tokenizer.h"
#include "engine/format/gguf_output.h"
#include "engine/format/gguf_rope.h"
#include "tests/unit/base/gguf_builder.h"
#include "tests/unit/base/material.h"
#include "tests/unit/base/temp_folder.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

fs::path Golden(const char* name) { return fs::path(FTUNE_SOURCE_DIR) / "tests/golden/models" / name; }

// The golden models but tiny-chat have none; their vocabularies are smaller than 256.
constexpr char kTokenizer[] = R"({
  "added_tokens": [{"id": 4, "content": "<|end|>", "special": true}, {"id": 6, "content": "<x>"}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "c": 5}, "merges": [["a", "b"]]}})";

// A copy of a golden model with a tokenizer.
ModelFiles Copy(const TempFolder& folder, const char* name, const std::string& tokenizer = kTokenizer) {
  const fs::path to = folder / name;
  fs::copy(Golden(name), to);
  if (!fs::exists(to / "tokenizer.json")) WriteBytes(to / "tokenizer.json", tokenizer);
  auto files = OpenModel(to);
  REQUIRE(files.ok());
  return *std::move(files);
}

std::vector<float> Values(const SourceTensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes.size());
  CopySourceTensor(tensor, bytes.data());
  int64_t count = 1;
  for (const int64_t dim : tensor.shape) count *= dim;
  std::vector<float> values(count);
  ConvertToF32(tensor.dtype, bytes.data(), count, values.data());
  return values;
}

// The model's own tensors in f32, times `factor`.
std::vector<OutputTensor> Tensors(const ModelFiles& model, float factor = 1.0f) {
  std::vector<OutputTensor> tensors;
  for (const SourceTensor& tensor : model.weights->tensors()) {
    tensors.push_back({tensor.name, DType::kF32, tensor.shape, [&tensor, factor](std::byte* out) {
                         std::vector<float> values = Values(tensor);
                         for (float& value : values) value *= factor;
                         std::memcpy(out, values.data(), values.size() * sizeof(float));
                         return absl::OkStatus();
                       }});
  }
  return tensors;
}

TEST_CASE("gguf output: a model written in f32 and read again has the same config and weights") {
  for (const char* name : {"llama", "llama3", "llama-linear", "mistral", "qwen2", "smollm2", "tiny-chat"}) {
    CAPTURE(name);
    TempFolder folder;
    const ModelFiles base = Copy(folder, name);
    const absl::Status status = WriteGgufModel(base, folder / "m.gguf", Tensors(base), DType::kF32);
    INFO(status.message());
    REQUIRE(status.ok());
    const auto again = OpenModel(folder / "m.gguf");
    INFO(again.status().message());
    REQUIRE(again.ok());
    ModelConfig expected = base.config;
    expected.rope.theta = static_cast<float>(expected.rope.theta);
    CHECK(again->config.rope == expected.rope);
    CHECK(again->config == expected);
    REQUIRE(again->weights->tensors().size() == base.weights->tensors().size());
    for (const SourceTensor& tensor : base.weights->tensors()) {
      CAPTURE(tensor.name);
      const SourceTensor* other = again->weights->Find(tensor.name);
      REQUIRE(other != nullptr);
      CHECK(other->shape == tensor.shape);
      CHECK(Values(*other) == Values(tensor));
    }
  }
}

TEST_CASE("gguf output: which type a tensor gets") {
  const auto type = [](DType wanted, std::vector<int64_t> shape) { return GgufOutputType(wanted, shape); };
  CHECK(type(DType::kQ4_K, {3, 512}) == DType::kQ4_K);
  CHECK(type(DType::kQ4_K, {3, 576}) == DType::kQ8_0);
  CHECK(type(DType::kQ4_K, {3, 36}) == DType::kF16);
  CHECK(type(DType::kQ4_K, {512}) == DType::kF32);
  CHECK(type(DType::kQ4_0, {3, 96}) == DType::kQ4_0);
  CHECK(type(DType::kQ8_0, {3, 40}) == DType::kF16);
  CHECK(type(DType::kBF16, {3, 5}) == DType::kBF16);
  CHECK(type(DType::kF16, {5}) == DType::kF32);
  CHECK(IsGgufOutputType(DType::kQ4_K));
  CHECK(IsGgufOutputType(DType::kBF16));
  CHECK_FALSE(IsGgufOutputType(DType::kQ6_K));
  CHECK_FALSE(IsGgufOutputType(DType::kF64));
}

TEST_CASE("gguf output: quantised matrices, plain vectors, the file's type") {
  struct Case {
    DType dtype;
    DType embedding;  // rows of 32
    int64_t file_type;
  };
  for (const Case& c : {Case{DType::kQ8_0, DType::kQ8_0, 7}, Case{DType::kQ4_0, DType::kQ4_0, 2},
                        Case{DType::kQ4_K, DType::kQ8_0, 14}, Case{DType::kBF16, DType::kBF16, 32}}) {
    CAPTURE(Name(c.dtype));
    TempFolder folder;
    const ModelFiles base = Copy(folder, "llama");
    REQUIRE(WriteGgufModel(base, folder / "m.gguf", Tensors(base), c.dtype).ok());
    const auto file = GgufFile::Open(folder / "m.gguf");
    REQUIRE(file.ok());
    CHECK(*file->Int("general.file_type") == c.file_type);
    CHECK(file->Has("general.quantization_version") == IsQuantized(c.dtype));
    CHECK(file->FindTensor("token_embd.weight")->dtype == c.embedding);
    CHECK(file->FindTensor("blk.1.ffn_norm.weight")->dtype == DType::kF32);
    const bool plain = !IsQuantized(c.dtype);
    CHECK(file->FindTensor("blk.1.ffn_down.weight")->dtype == (plain ? c.dtype : DType::kF16));  // rows of 36
    // Rows of q are reordered, then quantised: the same as quantising them first.
    const auto again = OpenModel(folder / "m.gguf");
    REQUIRE(again.ok());
    const std::string name = "model.layers.1.self_attn.q_proj.weight";
    std::vector<float> expected = Values(*base.weights->Find(name));
    std::vector<std::byte> bytes(BytesFor(c.embedding, static_cast<int64_t>(expected.size())));
    const auto count = static_cast<int64_t>(expected.size());
    if (plain) {
      ConvertFromF32(c.embedding, expected.data(), count, bytes.data());
    } else {
      REQUIRE(Quantize(c.embedding, expected.data(), count, bytes.data()));
    }
    ConvertToF32(c.embedding, bytes.data(), count, expected.data());
    CHECK(Values(*again->weights->Find(name)) == expected);
  }
}

TEST_CASE("gguf output: the tokenizer's metadata") {
  TempFolder folder;
  const ModelFiles base = Copy(folder, "llama");
  REQUIRE(WriteGgufModel(base, folder / "m.gguf", Tensors(base), DType::kF16).ok());
  const auto file = GgufFile::Open(folder / "m.gguf");
  REQUIRE(file.ok());
  CHECK(*file->String("general.name") == "llama");
  CHECK(*file->String("tokenizer.ggml.model") == "gpt2");
  CHECK(*file->String("tokenizer.ggml.pre") == "gpt-2");
  const auto tokens = *file->Strings("tokenizer.ggml.tokens");
  REQUIRE(tokens.size() == 65);
  CHECK(std::vector(tokens.begin(), tokens.begin() + 8) ==
        std::vector<std::string_view>{"a", "b", "ab", "[PAD3]", "<|end|>", "c", "<x>", "[PAD7]"});
  const auto types = *file->Ints("tokenizer.ggml.token_type");
  CHECK(std::vector(types.begin(), types.begin() + 8) == std::vector<int64_t>{1, 1, 1, 5, 3, 1, 4, 5});
  CHECK(*file->Strings("tokenizer.ggml.merges") == std::vector<std::string_view>{"a b"});
  CHECK(*file->Int("tokenizer.ggml.eos_token_id") == 2);  // of config.json and generation_config.json
  CHECK(*file->Int("tokenizer.ggml.eot_token_id") == 5);
  CHECK_FALSE(*file->Bool("tokenizer.ggml.add_bos_token"));

  const ModelFiles chat = Copy(folder, "tiny-chat");
  REQUIRE(WriteGgufModel(chat, folder / "chat.gguf", Tensors(chat), DType::kQ8_0).ok());
  const auto own = LoadTokenizer(folder / "tiny-chat"), written = LoadTokenizer(folder / "chat.gguf");
  REQUIRE(own.ok());
  REQUIRE(written.ok());
  CHECK((*own)->chat_template() == (*written)->chat_template());
  CHECK((*own)->special().eos->id == (*written)->special().eos->id);
  for (const char* text :
       {"The engine reads a recipe.", "<|im_start|>user\nIt's  1999 – Zürich 🙂<|im_end|>"}) {
    CHECK((*own)->Encode(text).ids == (*written)->Encode(text).ids);
  }
}

TEST_CASE("gguf output: BOS and EOS around the text, and the name of the way to split it") {
  const auto write = [](const std::string& parts, const TempFolder& folder) {
    const ModelFiles base =
        Copy(folder, "llama", R"({"added_tokens": [{"id": 4, "content": "<s>"}], )" + parts + "}");
    const absl::Status status = WriteGgufModel(base, folder / "m.gguf", Tensors(base), DType::kF32);
    INFO(status.message());
    REQUIRE(status.ok());
    return *GgufFile::Open(folder / "m.gguf");
  };
  const std::string split =
      R"("pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "behavior": "Isolated",
         "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
         {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]}, )";
  const std::string ends =
      R"("post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
         {"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [4]}}}, )";
  {
    TempFolder folder;
    const GgufFile file = write(split + ends + R"("model": {"type": "BPE", "ignore_merges": true,
                                                            "vocab": {"a": 0}, "merges": []})",
                                folder);
    CHECK(*file.String("tokenizer.ggml.pre") == "llama-bpe");
    CHECK(*file.Bool("tokenizer.ggml.add_bos_token"));
    CHECK_FALSE(*file.Bool("tokenizer.ggml.add_eos_token"));
    CHECK(*file.Int("tokenizer.ggml.bos_token_id") == 4);
  }
  TempFolder folder;  // the same pattern, but merges count
  const GgufFile file = write(split + R"("model": {"type": "BPE", "vocab": {"a": 0}, "merges": []})", folder);
  CHECK(*file.String("tokenizer.ggml.pre") == "dbrx");
  CHECK_FALSE(*file.Bool("tokenizer.ggml.add_bos_token"));
}

TEST_CASE("gguf output: the head of a tied model is written once") {
  TempFolder folder;
  const ModelFiles base = Copy(folder, "llama3");
  REQUIRE(base.config.tied_head);
  std::vector<OutputTensor> tensors = Tensors(base);
  const auto embedding = std::find_if(tensors.begin(), tensors.end(), [](const OutputTensor& tensor) {
    return tensor.name == "model.embed_tokens.weight";
  });
  OutputTensor head = *embedding;
  head.name = "lm_head.weight";
  tensors.push_back(head);
  REQUIRE(WriteGgufModel(base, folder / "m.gguf", tensors, DType::kF32).ok());
  CHECK(GgufFile::Open(folder / "m.gguf")->FindTensor("output.weight") == nullptr);
}

TEST_CASE("gguf output: of a GGUF base, general and tokenizer metadata stay as they are") {
  TempFolder folder;
  const ModelFiles chat = Copy(folder, "tiny-chat");
  REQUIRE(WriteGgufModel(chat, folder / "one.gguf", Tensors(chat), DType::kF32).ok());
  const auto one = OpenModel(folder / "one.gguf");
  REQUIRE(one.ok());
  REQUIRE(WriteGgufModel(*one, folder / "two.gguf", Tensors(*one), DType::kQ8_0).ok());
  const auto a = GgufFile::Open(folder / "one.gguf"), b = GgufFile::Open(folder / "two.gguf");
  REQUIRE(b.ok());
  int kept = 0;
  for (const GgufEntry& entry : a->entries()) {
    if (!entry.key.starts_with("tokenizer.") && entry.key != "general.name") continue;
    CAPTURE(entry.key);
    const auto& entries = b->entries();
    const auto other =
        std::find_if(entries.begin(), entries.end(), [&](const GgufEntry& e) { return e.key == entry.key; });
    REQUIRE(other != entries.end());
    CHECK(
        std::equal(entry.encoded.begin(), entry.encoded.end(), other->encoded.begin(), other->encoded.end()));
    ++kept;
  }
  CHECK(kept >= 12);
  CHECK(*b->Int("general.file_type") == 7);
  const auto two = OpenModel(folder / "two.gguf");
  REQUIRE(two.ok());
  CHECK(two->config == one->config);
  CHECK(NotSaid(WriteGgufModel(*one, folder / "one.gguf", Tensors(*one), DType::kF32), "over the one") == "");
}

TEST_CASE("gguf output: Llama 3's scaling with frequencies of its own") {
  TempFolder folder;
  ModelFiles base = Copy(folder, "llama3");
  base.config.rope.low_freq_factor = 1.5;
  base.config.rope.high_freq_factor = 3.0;
  base.config.rope.original_max_position = 100;
  REQUIRE(WriteGgufModel(base, folder / "m.gguf", Tensors(base), DType::kF32).ok());
  const auto again = OpenModel(folder / "m.gguf");
  REQUIRE(again.ok());
  CHECK(again->config.rope == base.config.rope);
}

TEST_CASE("gguf output: what cannot be written is refused, and leaves no file") {
  TempFolder folder;
  const auto write = [&](const char* name, const std::string& tokenizer, float factor = 1.0f) {
    TempFolder own;
    const ModelFiles base = Copy(own, name, tokenizer);
    return WriteGgufModel(base, folder / "m.gguf", Tensors(base, factor), DType::kQ8_0);
  };
  CHECK(NotSaid(write("qwen2-window", kTokenizer), "sliding_window", "qwen2", "--format hf") == "");
  CHECK(NotSaid(write("llama", R"({"model": {"type": "Unigram"}})"), "tokenizer.json", "byte-level") == "");
  const auto with = [&](const std::string& parts) {
    return write("llama", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, )" + parts + "}");
  };
  const std::string byte_level = R"("pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false})";
  CHECK(with(byte_level).ok());
  fs::remove(folder / "m.gguf");
  CHECK(NotSaid(with(R"("pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true})"), "tokenizer.json",
                "pre_tokenizer", "add_prefix_space") == "");
  CHECK(NotSaid(with(R"("pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "\\w+x"}, "behavior": "Isolated"},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})"),
                "tokenizer.json", "\\w+x", "llama.cpp") == "");
  CHECK(NotSaid(with(byte_level + R"(, "normalizer": {"type": "Lowercase"})"), "normalizer", "Lowercase") ==
        "");
  CHECK(NotSaid(with(byte_level + R"(, "added_tokens": [{"id": 65, "content": "<far>"}])"), "<far>",
                "found 65", "below 65") == "");
  CHECK(NotSaid(with(byte_level + R"(, "post_processor": {"type": "BertProcessing", "sep": ["a", 0], "cls":
      ["a", 0]}, "normalizer": {"type": "NFD"})"),
                "NFD") == "");
  CHECK(NotSaid(write("llama", kTokenizer, INFINITY), "m.gguf", "not finite") == "");
  CHECK(NotSaid(write("llama", kTokenizer, 1e9f), "m.gguf", "too large for q8_0", "bf16") == "");
  {
    TempFolder own;
    fs::copy(Golden("llama"), own / "bare");
    const auto bare = OpenModel(own / "bare");
    CHECK(NotSaid(WriteGgufModel(*bare, folder / "m.gguf", Tensors(*bare), DType::kF32), "no tokenizer") ==
          "");
    CHECK(NotSaid(WriteGgufModel(*bare, folder / "m.bin", Tensors(*bare), DType::kF32), "ends in .gguf") ==
          "");
    ModelFiles other = Copy(own, "qwen2");
    std::vector<OutputTensor> tensors = Tensors(other);
    tensors[0].name = "model.layers.0.self_attn.q_norm.weight";
    CHECK(NotSaid(WriteGgufModel(other, folder / "m.gguf", tensors, DType::kF32), "q_norm", "qwen2") == "");
  }
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("gguf output: a file cut off at any KiB is an error") {
  TempFolder folder;
  const ModelFiles chat = Copy(folder, "tiny-chat");
  REQUIRE(WriteGgufModel(chat, folder / "m.gguf", Tensors(chat), DType::kQ8_0).ok());
  const std::string whole = ReadBytes(folder / "m.gguf");
  REQUIRE(whole.size() > 20 * 1024);
  for (size_t size = 0; size < whole.size(); size += 1024) {
    CAPTURE(size);
    WriteBytes(folder / "cut.gguf", whole.substr(0, size));
    CHECK(NotSaid(OpenModel(folder / "cut.gguf").status(), "cut.gguf") == "");
    CHECK_FALSE(LoadTokenizer(folder / "cut.gguf").ok());
  }
}

// The tokenizers of real models, with a model of no layers' worth of weights around them.
TEST_CASE("gguf output: tokenizers of real models come back") {
  struct Case {
    const char* path;
    const char* pre;
    int64_t rows;
  };
  for (const Case& c : {Case{"tokenizers/npm_big/llama3", "llama-bpe", 128256},
                        Case{"tokenizers/npm_big/qwen3", "qwen2", 151936},
                        Case{"tokenizers/spm/llama2_tokenizer.model", "default", 32000},
                        Case{"tokenizers/spm/mistral/tokenizer.model.v1", "default", 32000}}) {
    CAPTURE(c.path);
    const auto material = Material(c.path);
    if (!material) continue;
    TempFolder folder;
    ModelFiles base = Copy(folder, "llama");
    fs::remove(folder / "llama/tokenizer.json");
    if (fs::is_directory(*material)) {
      fs::copy(*material, folder / "llama");
    } else {
      fs::copy(*material, folder / "llama/tokenizer.model");
    }
    base.config.vocab_size = c.rows;
    const absl::Status status = WriteGgufModel(base, folder / "m.gguf", Tensors(base), DType::kF16);
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK(*GgufFile::Open(folder / "m.gguf")->String("tokenizer.ggml.pre") == c.pre);
    const auto own = LoadTokenizer(folder / "llama"), written = LoadTokenizer(folder / "m.gguf");
    REQUIRE(own.ok());
    REQUIRE(written.ok());
    if ((*own)->special().bos) CHECK((*written)->special().bos->id == (*own)->special().bos->id);
    for (const char* text :
         {"Hello, world!  It's 1999's\t\"x\"\n\n  if (a != b) { return 3.14; }",
          " Grüße – 東京 🙂👍🏽 Привет", "12345678 don't DON'T café\r\n", ""}) {
      CAPTURE(text);
      CHECK((*own)->Encode(text).ids == (*written)->Encode(text).ids);
    }
  }
}

}  // namespace
}  // namespace ftune
