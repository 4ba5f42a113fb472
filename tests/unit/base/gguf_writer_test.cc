#include "base/gguf_writer.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/unit/base/gguf_builder.h"

namespace ftune {
namespace {

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST_CASE("gguf writer: metadata of every type comes back") {
  TempFolder folder;
  GgufMetadata metadata;
  metadata.Add("u8", uint8_t{200});
  metadata.Add("i8", int8_t{-2});
  metadata.Add("u16", uint16_t{60000});
  metadata.Add("i16", int16_t{-3});
  metadata.Add("u32", uint32_t{4000000000u});
  metadata.Add("i32", int32_t{-4});
  metadata.Add("u64", uint64_t{1} << 40);
  metadata.Add("i64", int64_t{-5});
  metadata.Add("f32", 1.5f);
  metadata.Add("f64", 2.25);
  metadata.Add("b", true);
  metadata.Add("s", "text");
  metadata.Add("is", std::vector<int32_t>{1, -2});
  metadata.Add("fs", std::vector<float>{0.5f, -1.0f});
  metadata.Add("ss", std::vector<std::string>{"x", "", "yy"});
  CHECK(metadata.Has("ss"));
  CHECK_FALSE(metadata.Has("s2"));
  auto writer = GgufWriter::Create(folder / "m.gguf", metadata, {});
  REQUIRE(writer.ok());
  REQUIRE(writer->Finish().ok());
  const auto file = GgufFile::Open(folder / "m.gguf");
  REQUIRE(file.ok());
  CHECK(file->version() == 3);
  CHECK(file->metadata().size() == 15);
  CHECK(*file->Int("u8") == 200);
  CHECK(*file->Int("i8") == -2);
  CHECK(*file->Int("u16") == 60000);
  CHECK(*file->Int("i16") == -3);
  CHECK(*file->Int("u32") == 4000000000);
  CHECK(*file->Int("i32") == -4);
  CHECK(*file->Int("u64") == int64_t{1} << 40);
  CHECK(*file->Int("i64") == -5);
  CHECK(*file->Float("f32") == 1.5);
  CHECK(*file->Float("f64") == 2.25);
  CHECK(*file->Bool("b"));
  CHECK(*file->String("s") == "text");
  CHECK(*file->Ints("is") == std::vector<int64_t>{1, -2});
  CHECK(*file->Floats("fs") == std::vector<float>{0.5f, -1.0f});
  CHECK(*file->Strings("ss") == std::vector<std::string_view>{"x", "", "yy"});
}

TEST_CASE("gguf writer: values of another file are copied as they are, in its order") {
  TempFolder folder;
  GgufBuilder builder;
  builder.Text("z", "last letter first").Raw("u8", 0, Bytes<uint8_t>(7)).Texts("t", {"a", "", "c"});
  builder.Raw(
      "nested", 9,
      Bytes<uint32_t>(9) + Bytes<uint64_t>(1) + Bytes<uint32_t>(8) + Bytes<uint64_t>(1) + GgufString("deep"));
  builder.Ints("is", {1, -2}).Tensor("q", {32}, 8, std::string(34, 'q'));
  WriteBytes(folder / "from.gguf", builder.Build());
  const auto from = GgufFile::Open(folder / "from.gguf");
  REQUIRE(from.ok());
  GgufMetadata metadata;
  for (const GgufEntry& entry : from->entries()) metadata.Add(entry);
  auto writer = GgufWriter::Create(folder / "to.gguf", metadata, {{"q", DType::kQ8_0, {32}}});
  REQUIRE(writer.ok());
  REQUIRE(writer->Append(AsBytes(std::string(34, 'q'))).ok());
  REQUIRE(writer->Finish().ok());
  std::string expected = builder.Build();
  expected.resize((expected.size() + 31) / 32 * 32);  // the last tensor is padded, too
  CHECK(ReadBytes(folder / "to.gguf") == expected);
}

TEST_CASE("gguf writer: tensors, aligned, in pieces") {
  TempFolder folder;
  auto writer = GgufWriter::Create(folder / "m.gguf", GgufMetadata(),
                                   {{"a", DType::kF32, {1, 3}},
                                    {"empty", DType::kF32, {0, 4}},
                                    {"k", DType::kQ4_K, {2, 256}},
                                    {"h", DType::kBF16, {5}},
                                    {"end", DType::kF16, {0}}});
  REQUIRE(writer.ok());
  REQUIRE(writer->Append(AsBytes("aaaa")).ok());
  REQUIRE(writer->Append(AsBytes("bbbbcccc")).ok());
  REQUIRE(writer->Append(AsBytes(std::string(288, 'k'))).ok());
  CHECK_FALSE(std::filesystem::exists(folder / "m.gguf"));
  REQUIRE(writer->Append(AsBytes("0123456789")).ok());
  REQUIRE(writer->Finish().ok());
  const auto file = GgufFile::Open(folder / "m.gguf");
  REQUIRE(file.ok());
  REQUIRE(file->tensors().size() == 5);
  const GgufTensor* a = file->FindTensor("a");
  CHECK(a->shape == std::vector<int64_t>{1, 3});
  CHECK(a->dtype == DType::kF32);
  CHECK(std::memcmp(a->bytes.data(), "aaaabbbbcccc", 12) == 0);
  CHECK(file->FindTensor("empty")->shape == std::vector<int64_t>{0, 4});
  const GgufTensor* k = file->FindTensor("k");
  CHECK(k->dtype == DType::kQ4_K);
  CHECK(k->shape == std::vector<int64_t>{2, 256});
  CHECK(std::count(k->bytes.begin(), k->bytes.end(), std::byte{'k'}) == 288);
  CHECK(std::memcmp(file->FindTensor("h")->bytes.data(), "0123456789", 10) == 0);
}

TEST_CASE("gguf writer: what does not fit is an error, and leaves no file") {
  TempFolder folder;
  const auto create = [&](std::vector<GgufTensorSpec> tensors) {
    return GgufWriter::Create(folder / "m.gguf", GgufMetadata(), tensors).status();
  };
  CHECK(NotSaid(create({{"t", DType::kBool, {1}}}), "m.gguf", "t: ", "no type for bool") == "");
  CHECK(NotSaid(create({{"t", DType::kF32, {1, 1, 1, 1, 1}}}), "t: ", "at most 4", "5") == "");
  CHECK(NotSaid(create({{"t", DType::kQ4_K, {2, 320}}}), "t: ", "320", "multiple of 256") == "");
  CHECK(NotSaid(create({{"t", DType::kF32, {1}}, {"t", DType::kF32, {1}}}), "t: ", "twice") == "");
  {
    auto writer = GgufWriter::Create(folder / "m.gguf", GgufMetadata(), {{"t", DType::kF32, {2}}});
    REQUIRE(writer.ok());
    REQUIRE(writer->Append(AsBytes("aaaa")).ok());
    CHECK_FALSE(writer->Append(AsBytes("bbbbb")).ok());
    CHECK_FALSE(writer->Finish().ok());
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace ftune
