#include "base/safetensors.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "base/tensor_bytes.h"
#include "tests/unit/base/material.h"
#include "tests/unit/base/temp_folder.h"

namespace ftune {
namespace {

std::string File(std::string header, const std::string& data) {
  return Bytes<uint64_t>(header.size()) + header + data;
}

// Two tensors in 20 bytes of data.
const char kHeader[] =
    R"({"__metadata__":{"format":"pt"},)"
    R"("b":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"a":{"dtype":"BF16","shape":[2],"data_offsets":[16,20]}})";
const std::string kData(20, '\x01');

absl::Status OpenBytes(const std::string& bytes) {
  TempFolder folder;
  WriteBytes(folder / "m.safetensors", bytes);
  return SafetensorsFile::Open(folder / "m.safetensors").status();
}

// Opens kHeader with one piece of text replaced.
absl::Status OpenChanged(std::string_view from, std::string_view to, const std::string& data = kData) {
  std::string header = kHeader;
  const size_t at = header.find(from);
  REQUIRE(at != std::string::npos);
  return OpenBytes(File(header.replace(at, from.size(), to), data));
}

TEST_CASE("safetensors: names, types, shapes, bytes and metadata") {
  TempFolder folder;
  WriteBytes(folder / "m.safetensors", File(kHeader, std::string(16, 'b') + std::string(4, 'a')));
  const auto file = SafetensorsFile::Open(folder / "m.safetensors");
  REQUIRE(file.ok());
  REQUIRE(file->entries().size() == 2);
  CHECK(file->entries()[0].name == "a");  // sorted
  const SafetensorsEntry* b = file->Find("b");
  REQUIRE(b != nullptr);
  CHECK(b->dtype == DType::kF32);
  CHECK(b->shape == std::vector<int64_t>{2, 2});
  CHECK(b->bytes.size() == 16);
  CHECK(static_cast<char>(b->bytes[15]) == 'b');
  CHECK(static_cast<char>(file->Find("a")->bytes[0]) == 'a');
  CHECK(file->Find("c") == nullptr);
  CHECK(file->metadata().at("format") == "pt");
}

TEST_CASE("safetensors: scalars, empty tensors and types that DType does not have") {
  TempFolder folder;
  WriteBytes(folder / "m", File(R"({"s":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                                R"("e":{"dtype":"F32","shape":[0,5],"data_offsets":[8,8]},)"
                                R"("q":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[8,11]}}   )",
                                std::string(11, 'x')));
  const auto file = SafetensorsFile::Open(folder / "m");
  REQUIRE(file.ok());
  CHECK(file->Find("s")->shape.empty());
  CHECK(file->Find("e")->bytes.empty());
  CHECK_FALSE(file->Find("q")->dtype.has_value());
  CHECK(file->Find("q")->dtype_name == "F8_E4M3");
  CHECK(file->Find("q")->bytes.size() == 3);
}

TEST_CASE("safetensors: a file cut off anywhere is an error") {
  const std::string whole = File(kHeader, kData);
  CHECK(OpenBytes(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    INFO(size);
    CHECK_FALSE(OpenBytes(whole.substr(0, size)).ok());
  }
  CHECK(NotSaid(OpenBytes(whole.substr(0, whole.size() - 1)), "m.safetensors",
                "a: ", "past the end of the file", "cut off") == "");
  CHECK(NotSaid(OpenBytes(whole.substr(0, 7)), "7 bytes") == "");
  CHECK(NotSaid(OpenBytes(whole.substr(0, 100)), "header ends past the end of the file") == "");
  CHECK(NotSaid(OpenBytes(whole + "x"), "1 bytes after the last tensor") == "");
}

// Any byte changed: an error or a file all of whose bytes can be read (what a sanitizer checks).
TEST_CASE("safetensors: damaged files do no harm") {
  TempFolder folder;
  const std::string whole = File(kHeader, kData);
  int accepted = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char value : {'\0', '1', '9', '-', '"', '[', '\xff'}) {
      std::string damaged = whole;
      damaged[at] = value;
      WriteBytes(folder / "m", damaged);
      const auto file = SafetensorsFile::Open(folder / "m");
      if (!file.ok()) continue;
      ++accepted;
      for (const SafetensorsEntry& entry : file->entries()) {
        CHECK(std::count(entry.bytes.begin(), entry.bytes.end(), std::byte{1}) <= 16);
      }
    }
  }
  CHECK(accepted > 100);
}

TEST_CASE("safetensors: a wrong header length") {
  CHECK(NotSaid(OpenBytes(Bytes<uint64_t>(~0ull) + kHeader), "header ends past the end") == "");
  CHECK(NotSaid(OpenBytes(Bytes<uint64_t>(0) + kHeader), "not valid JSON") == "");
  CHECK(NotSaid(OpenBytes(Bytes<uint64_t>(sizeof(kHeader) - 2) + kHeader + kData), "not valid JSON") == "");
}

TEST_CASE("safetensors: a wrong header") {
  CHECK(NotSaid(OpenBytes(File("[]", "")), "not a JSON object") == "");
  CHECK(NotSaid(OpenBytes(File("null", "")), "not a JSON object") == "");
  CHECK(NotSaid(OpenChanged("\"a\"", "\"b\""), "b: ", "twice") == "");
  CHECK(NotSaid(OpenChanged("[0,16]", "[0,12]"), "b: ", "12 bytes", "16 bytes for F32 [2, 2]") == "");
  CHECK(NotSaid(OpenChanged("[16,20]", "[12,16]"), "a: ", "gap or overlap") == "");
  CHECK(NotSaid(OpenChanged("[16,20]", "[18,22]", kData + "xx"), "a: ", "gap or overlap") == "");
  CHECK(NotSaid(OpenChanged("[16,20]", "[20,16]"), "a: ", "end before they begin") == "");
  CHECK(NotSaid(OpenChanged("[16,20]", "[16]"), "a: ", "data_offsets") == "");
  CHECK(NotSaid(OpenChanged("[16,20]", "[-1,3]"), "a: ", "data_offsets") == "");
  CHECK(NotSaid(OpenChanged("[16,20]", "[18446744073709551612,18446744073709551616]"),
                "a: ", "data_offsets") == "");
  CHECK(NotSaid(OpenChanged("[16,20]", "[16,18446744073709551615]"), "a: ", "do not fit") == "");
  CHECK(NotSaid(OpenChanged("\"data_offsets\":[16,20]", "\"x\":1"), "a: ", "data_offsets") == "");
  CHECK(NotSaid(OpenChanged("[2,2]", "[2,-2]"), "b: ", "dimension", "-2") == "");
  CHECK(NotSaid(OpenChanged("[2,2]", "[2,2.0]"), "b: ", "dimension", "2.0") == "");
  CHECK(NotSaid(OpenChanged("[2,2]", "\"2\""), "b: ", "shape") == "");
  CHECK(NotSaid(OpenChanged("[2,2]", "[4294967296,4294967296]"), "b: ", "too large") == "");
  CHECK(NotSaid(OpenChanged("[2,2]", "[2305843009213693952,2]"), "b: ", "too large") == "");  // times 4 bytes
  CHECK(NotSaid(OpenChanged("\"F32\"", "32"), "b: ", "dtype") == "");
  CHECK(NotSaid(OpenChanged("\"pt\"", "1"), "__metadata__.format", "a string") == "");
  CHECK(NotSaid(OpenChanged(R"({"dtype":"BF16","shape":[2],"data_offsets":[16,20]})", "3"),
                "a: ", "not a JSON object") == "");
}

TEST_CASE("safetensors: what is written is read") {
  TempFolder folder;
  const std::filesystem::path path = folder / "w.safetensors";
  auto writer = SafetensorsWriter::Create(
      path, {{"z", DType::kF32, {3, 1}}, {"a\"\n", DType::kBF16, {2}}, {"none", DType::kF16, {0, 4}}});
  REQUIRE(writer.ok());
  const std::string bytes = "0123456789abcdef";
  for (const char& c : bytes) REQUIRE(writer->Append(std::as_bytes(std::span(&c, 1))).ok());
  CHECK_FALSE(std::filesystem::exists(path));
  REQUIRE(writer->Finish().ok());

  const auto file = SafetensorsFile::Open(path);
  REQUIRE(file.ok());
  CHECK(file->metadata().at("format") == "pt");
  REQUIRE(file->entries().size() == 3);
  CHECK(std::memcmp(file->Find("z")->bytes.data(), "0123456789ab", 12) == 0);
  CHECK(std::memcmp(file->Find("a\"\n")->bytes.data(), "cdef", 4) == 0);
  CHECK(file->Find("z")->shape == std::vector<int64_t>{3, 1});
  // The data begins aligned in the mapping.
  CHECK(reinterpret_cast<uintptr_t>(file->Find("z")->bytes.data()) % 8 == 0);
}

TEST_CASE(
    "safetensors: the writer takes no tensor that the format cannot hold, and no other number of bytes") {
  TempFolder folder;
  const std::filesystem::path path = folder / "w";
  const auto create = [&](std::vector<SafetensorsSpec> specs) {
    return SafetensorsWriter::Create(path, std::move(specs)).status();
  };
  CHECK(NotSaid(create({{"q", DType::kQ4_0, {32}}}), "q: ", "q4_0") == "");
  CHECK(NotSaid(create({{"a", DType::kF32, {1}}, {"a", DType::kF32, {1}}}), "a: ", "twice") == "");
  CHECK(NotSaid(create({{"a", DType::kF32, {-1}}}), "a: ", "negative") == "");
  CHECK(NotSaid(create({{"a", DType::kF32, {int64_t{1} << 62, 4}}}), "a: ", "too large") == "");
  auto writer = SafetensorsWriter::Create(path, {{"a", DType::kU8, {2}}});
  REQUIRE(writer.ok());
  const std::byte bytes[3] = {};
  CHECK_FALSE(writer->Append(bytes).ok());
  REQUIRE(writer->Append(std::span(bytes, 1)).ok());
  CHECK_FALSE(writer->Finish().ok());
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("bytes of a tensor") {
  const auto bytes = [](DType dtype, std::vector<int64_t> shape) { return CheckedBytes(dtype, shape); };
  CHECK(*bytes(DType::kF32, {2, 3}) == 24);
  CHECK(*bytes(DType::kF64, {}) == 8);
  CHECK(*bytes(DType::kQ4_1, {2, 64}) == 80);
  CHECK(*bytes(DType::kQ8_0, {0, 32}) == 0);
  CHECK(NotSaid(bytes(DType::kQ4_0, {32, 16}).status(), "16", "multiple of 32") == "");
  CHECK(NotSaid(bytes(DType::kQ4_0, {}).status(), "multiple of 32") == "");
}

TEST_CASE("safetensors: files of others") {
  const auto folder = Material("models/safetensors_parser");
  if (!folder) return;
  const auto open = [&](const char* name) {
    auto file = SafetensorsFile::Open(*folder / name);
    REQUIRE(file.ok());
    return *std::move(file);
  };
  CHECK(open("tensor-1d-int32.safetensors").entries().at(0).dtype == DType::kI32);
  CHECK(open("tensor-2d-float64.safetensors").entries().at(0).shape.size() == 2);
  CHECK(open("tensor-4d-float32.safetensors").entries().at(0).shape.size() == 4);
  // The reference implementation refuses it too (incomplete metadata).
  CHECK(NotSaid(SafetensorsFile::Open(*folder / "tiny_weight_inspect.safetensors").status(),
                "5 bytes after the last tensor") == "");
}

}  // namespace
}  // namespace ftune
