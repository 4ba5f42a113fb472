#include "base/gguf.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/base/gguf_builder.h"
#include "tests/unit/base/material.h"

namespace ftune {
namespace {

absl::StatusOr<GgufFile> OpenBytes(const TempFolder& folder, const std::string& bytes) {
  WriteBytes(folder / "m.gguf", bytes);
  return GgufFile::Open(folder / "m.gguf");
}

absl::Status StatusOf(const GgufBuilder& builder) {
  TempFolder folder;
  return OpenBytes(folder, builder.Build()).status();
}

GgufBuilder Sound() {
  GgufBuilder builder;
  builder.Text("general.architecture", "llama").Int("n", 7).Texts("t", {"a", "", "c"});
  builder.Tensor("q", {32, 2}, 8, std::string(68, 'q')).Tensor("f", {3}, 0, std::string(12, 'f'));
  return builder;
}

TEST_CASE("gguf: metadata of every type") {
  GgufBuilder builder;
  builder.Raw("u8", 0, Bytes<uint8_t>(200))
      .Raw("i8", 1, Bytes<int8_t>(-2))
      .Raw("u16", 2, Bytes<uint16_t>(60000));
  builder.Raw("i16", 3, Bytes<int16_t>(-3)).Raw("u32", 4, Bytes<uint32_t>(4000000000u));
  builder.Raw("i32", 5, Bytes<int32_t>(-4)).Raw("f32", 6, Bytes(1.5f)).Raw("b", 7, Bytes<uint8_t>(1));
  builder.Text("s", "text").Raw("u64", 10, Bytes<uint64_t>(1ull << 40)).Raw("i64", 11, Bytes<int64_t>(-5));
  builder.Raw("f64", 12, Bytes(2.25)).Raw("huge", 10, Bytes<uint64_t>(~0ull));
  builder.Texts("ss", {"x", "yy"}).Ints("is", {1, -2}).Floats("fs", {0.5f, -1.0f});
  builder.Raw("bs", 9, Bytes<uint32_t>(7) + Bytes<uint64_t>(2) + std::string("\x01\x00", 2));
  // An array of two arrays, of one uint8 and of one string.
  builder.Raw("nested", 9,
              Bytes<uint32_t>(9) + Bytes<uint64_t>(2) + Bytes<uint32_t>(0) + Bytes<uint64_t>(1) + "x" +
                  Bytes<uint32_t>(8) + Bytes<uint64_t>(1) + GgufString("deep"));
  builder.Int("after", 42);
  TempFolder folder;
  const auto file = OpenBytes(folder, builder.Build());
  REQUIRE(file.ok());
  CHECK(*file->Int("u8") == 200);
  CHECK(*file->Int("i8") == -2);
  CHECK(*file->Int("u16") == 60000);
  CHECK(*file->Int("i16") == -3);
  CHECK(*file->Int("u32") == 4000000000);
  CHECK(*file->Int("i32") == -4);
  CHECK(*file->Float("f32") == 1.5);
  CHECK(*file->Float("i32") == -4.0);
  CHECK(*file->Bool("b"));
  CHECK(*file->String("s") == "text");
  CHECK(*file->Int("u64") == int64_t{1} << 40);
  CHECK(*file->Int("i64") == -5);
  CHECK(*file->Float("f64") == 2.25);
  CHECK(*file->Strings("ss") == std::vector<std::string_view>{"x", "yy"});
  CHECK(*file->Ints("is") == std::vector<int64_t>{1, -2});
  CHECK(*file->Ints("bs") == std::vector<int64_t>{1, 0});
  CHECK(*file->Floats("fs") == std::vector<float>{0.5f, -1.0f});
  CHECK(*file->Int("after") == 42);
  CHECK(*file->IntOr("absent", 9) == 9);
  CHECK(*file->StringOr("absent", "d") == "d");

  CHECK(NotSaid(file->Int("absent").status(), "m.gguf", "absent", "no such key") == "");
  CHECK(NotSaid(file->Int("s").status(), "s: ", "an integer") == "");
  CHECK(NotSaid(file->Int("huge").status(), "huge: ", "an integer") == "");
  CHECK(NotSaid(file->IntOr("f32", 1).status(), "f32", "an integer") == "");
  CHECK(NotSaid(file->Bool("u8").status(), "u8", "true or false") == "");
  CHECK(NotSaid(file->Strings("is").status(), "is: ", "an array of strings") == "");
  CHECK(NotSaid(file->Ints("ss").status(), "ss: ", "an array of integers") == "");
  CHECK(NotSaid(file->Ints("u8").status(), "u8: ", "an array") == "");
  CHECK(NotSaid(file->Floats("is").status(), "is: ", "floating-point") == "");
}

TEST_CASE("gguf: tensors") {
  TempFolder folder;
  const auto file = OpenBytes(folder, Sound().Build());
  REQUIRE(file.ok());
  REQUIRE(file->tensors().size() == 2);
  const GgufTensor* q = file->FindTensor("q");
  REQUIRE(q != nullptr);
  CHECK(q->dtype == DType::kQ8_0);
  CHECK(q->shape == std::vector<int64_t>{2, 32});
  CHECK(q->bytes.size() == 68);
  CHECK(static_cast<char>(q->bytes[67]) == 'q');
  CHECK(static_cast<char>(file->FindTensor("f")->bytes[0]) == 'f');
  CHECK(file->FindTensor("g") == nullptr);
}

TEST_CASE("gguf: versions 2 and 3, and an alignment of its own") {
  TempFolder folder;
  CHECK(OpenBytes(folder, Sound().Version(2).Build()).ok());
  GgufBuilder wide;
  wide.Alignment(256).Tensor("a", {1}, 0, "aaaa").Tensor("b", {1}, 0, "bbbb");
  const auto file = OpenBytes(folder, wide.Build());
  REQUIRE(file.ok());
  CHECK(static_cast<char>(file->FindTensor("b")->bytes[0]) == 'b');
  CHECK(NotSaid(StatusOf(Sound().Version(1)), "version", "found 1", "2 or 3") == "");
  CHECK(NotSaid(StatusOf(Sound().Version(4)), "version", "found 4") == "");
  CHECK(NotSaid(StatusOf(Sound().Version(0x03000000)), "big-endian") == "");
  CHECK(NotSaid(StatusOf(GgufBuilder().Alignment(12)), "general.alignment", "12") == "");
  CHECK(NotSaid(StatusOf(GgufBuilder().Int("general.alignment", 0)), "general.alignment", "found 0") == "");
}

TEST_CASE("gguf: a file cut off anywhere is an error") {
  TempFolder folder;
  const std::string whole = Sound().Build();
  for (size_t size = 0; size < whole.size(); ++size) {
    INFO(size);
    CHECK_FALSE(OpenBytes(folder, whole.substr(0, size)).ok());
  }
  CHECK(NotSaid(OpenBytes(folder, whole.substr(0, whole.size() - 1)).status(),
                "f: ", "past the end of the file") == "");
  CHECK(NotSaid(OpenBytes(folder, "GGML").status(), "m.gguf", "does not begin with 'GGUF'") == "");
}

// Any byte changed: an error or a file all of whose bytes can be read (what a sanitizer checks).
TEST_CASE("gguf: damaged files do no harm") {
  TempFolder folder;
  const std::string whole = Sound().Build();
  int accepted = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int value : {0, 1, 9, 127, 255}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(value);
      const auto file = OpenBytes(folder, damaged);
      if (!file.ok()) continue;
      ++accepted;
      for (const GgufTensor& tensor : file->tensors()) {
        CHECK(std::count(tensor.bytes.begin(), tensor.bytes.end(), std::byte{'f'}) <= 68);
      }
      for (const auto& [key, value] : file->metadata()) {
        CHECK((file->Strings(key).ok() || file->Int(key).ok() || file->String(key).ok() ||
               file->Ints(key).ok() || file->Float(key).ok() || file->Floats(key).ok() ||
               file->Bool(key).ok() || std::holds_alternative<GgufArray>(value) ||
               std::holds_alternative<uint64_t>(value)));
      }
    }
  }
  CHECK(accepted > 100);
}

TEST_CASE("gguf: counts and lengths that no file could have") {
  CHECK(NotSaid(StatusOf(Sound().MetadataCount(~0ull)), "cut off or broken") == "");
  CHECK(NotSaid(StatusOf(Sound().TensorCount(~0ull)), "cut off or broken") == "");
  const auto array = [](uint32_t type, uint64_t count) { return Bytes(type) + Bytes(count); };
  for (const uint32_t type : {0u, 4u, 8u, 9u, 12u}) {
    INFO(type);
    CHECK(NotSaid(StatusOf(GgufBuilder().Raw("k", 9, array(type, ~0ull))), "k: ", "cut off or broken") == "");
    CHECK(NotSaid(StatusOf(GgufBuilder().Raw("k", 9, array(type, 1ull << 61))), "k: ", "cut off or broken") ==
          "");
  }
  CHECK(NotSaid(StatusOf(GgufBuilder().Raw("k", 8, Bytes<uint64_t>(~0ull))), "k: ", "cut off or broken") ==
        "");
  CHECK(NotSaid(StatusOf(GgufBuilder().Raw("k", 13, "")), "k: ", "metadata type", "13") == "");
  CHECK(NotSaid(StatusOf(GgufBuilder().Raw("k", 9, array(99, 1))), "k: ", "metadata type", "99") == "");
  std::string nest;
  for (int i = 0; i < 100; ++i) nest += array(9, 1);
  CHECK(NotSaid(StatusOf(GgufBuilder().Raw("k", 9, nest)), "k: ", "nested too deeply") == "");
  CHECK(NotSaid(StatusOf(GgufBuilder().Int("k", 1).Int("k", 2)), "k: ", "twice") == "");
}

TEST_CASE("gguf: tensors that do not fit") {
  const std::string four(4, 'x');
  const auto with = [&](std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
    return StatusOf(GgufBuilder().TensorAt("t", dims, type, offset, four));
  };
  CHECK(with({1}, 0, 0).ok());
  CHECK(NotSaid(with({2}, 0, 0), "t: ", "past the end of the file") == "");
  CHECK(NotSaid(with({1}, 0, 32), "t: ", "past the end of the file") == "");
  CHECK(NotSaid(with({1}, 0, ~0ull - 31), "t: ", "past the end of the file") == "");
  CHECK(NotSaid(with({1}, 0, 8), "t: ", "not aligned") == "");
  CHECK(NotSaid(with({1ull << 32, 1ull << 32}, 0, 0), "t: ", "too large") == "");
  CHECK(NotSaid(with({~0ull}, 0, 0), "t: ", "negative") == "");
  CHECK(NotSaid(with({16}, 2, 0), "t: ", "multiple of 32") == "");
  for (const uint32_t type : {10u, 11u, 12u, 13u, 14u}) {  // K-quants have blocks of 256
    CHECK(NotSaid(with({320, 2}, type, 0), "t: ", "320", "multiple of 256", "_k") == "");
  }
  CHECK(NotSaid(with({48}, 20, 0), "t: ", "multiple of 32, the block of iq4_nl") == "");
  CHECK(NotSaid(with({1, 1, 1, 1, 1}, 0, 0), "t: ", "dimensions", "5") == "");
  CHECK(NotSaid(StatusOf(GgufBuilder().Tensor("t", {1}, 0, four).Tensor("t", {1}, 0, four)),
                "t: ", "twice") == "");
  CHECK(NotSaid(StatusOf(GgufBuilder().TensorAt("a", {1}, 0, 0, four).TensorAt("b", {1}, 0, 0, "")),
                "b: ", "overlaps with a") == "");
}

TEST_CASE("gguf: a type that cannot be used has its name, and no bytes") {
  TempFolder folder;
  const auto file = OpenBytes(
      folder, GgufBuilder().TensorAt("k", {256}, 39, 0, "").TensorAt("x", {1}, 77, 1ull << 40, "").Build());
  REQUIRE(file.ok());
  CHECK_FALSE(file->tensors()[0].dtype.has_value());
  CHECK(file->tensors()[0].bytes.empty());
}

TEST_CASE("gguf: files of others") {
  const auto path = Material("tokenizers/llamacpp_vocab/ggml-vocab-gpt-2.gguf");
  if (!path) return;
  const auto file = GgufFile::Open(*path);
  REQUIRE(file.ok());
  CHECK(file->Strings("tokenizer.ggml.tokens")->size() == 50257);
  CHECK(file->Strings("tokenizer.ggml.merges")->at(0) == "\u0120 t");
}

}  // namespace
}  // namespace ftune
