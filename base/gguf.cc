#include "base/gguf.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/gguf_parser.h"
#include "base/strings.h"

namespace ftune {
namespace {

std::optional<int64_t> AsInt(const GgufValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  if (const auto* number = std::get_if<uint64_t>(&value); number != nullptr && *number <= INT64_MAX) {
    return static_cast<int64_t>(*number);
  }
  return std::nullopt;
}

std::optional<double> AsFloat(const GgufValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto number = AsInt(value)) return static_cast<double>(*number);
  return std::nullopt;
}

bool IsInteger(GgufType type) {
  return type != GgufType::kFloat32 && type != GgufType::kFloat64 && type != GgufType::kString &&
         type != GgufType::kArray;
}

}  // namespace

absl::StatusOr<GgufFile> GgufFile::Open(const std::filesystem::path& path) {
  FTUNE_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  GgufFile file(std::move(mapped));
  FTUNE_RETURN_IF_ERROR(GgufParser(file).Parse());
  return file;
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const GgufTensor& tensor) { return tensor.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

absl::StatusOr<const GgufValue*> GgufFile::Require(std::string_view key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) {
    return DataError({.file = path().string(),
                      .key = std::string(key),
                      .message = "the GGUF file's metadata has no such key"});
  }
  return &found->second;
}

absl::Status GgufFile::WrongType(std::string_view key, std::string_view expected) const {
  return DataError({.file = path().string(),
                    .key = std::string(key),
                    .message = "the metadata value has another type or is out of range",
                    .expected = std::string(expected)});
}

absl::StatusOr<int64_t> GgufFile::Int(std::string_view key) const {
  FTUNE_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (const auto number = AsInt(*value)) return *number;
  return WrongType(key, "an integer");
}

absl::StatusOr<double> GgufFile::Float(std::string_view key) const {
  FTUNE_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (const auto number = AsFloat(*value)) return *number;
  return WrongType(key, "a number");
}

absl::StatusOr<bool> GgufFile::Bool(std::string_view key) const {
  FTUNE_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (const auto* truth = std::get_if<bool>(value)) return *truth;
  return WrongType(key, "true or false");
}

absl::StatusOr<std::string> GgufFile::String(std::string_view key) const {
  FTUNE_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (const auto* text = std::get_if<std::string_view>(value)) return std::string(*text);
  return WrongType(key, "a string");
}

absl::StatusOr<GgufArray> GgufFile::Array(std::string_view key) const {
  FTUNE_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (const auto* array = std::get_if<GgufArray>(value)) return *array;
  return WrongType(key, "an array");
}

absl::StatusOr<std::vector<int64_t>> GgufFile::Ints(std::string_view key) const {
  FTUNE_ASSIGN_OR_RETURN(const GgufArray array, Array(key));
  if (!IsInteger(array.type)) return WrongType(key, "an array of integers");
  std::vector<int64_t> numbers;
  numbers.reserve(array.count);
  ByteReader reader(array.bytes);
  for (uint64_t i = 0; i < array.count; ++i) {
    GgufValue value;
    ReadScalar(reader, array.type, value);  // fits: Open walked the array
    if (const auto* truth = std::get_if<bool>(&value)) {
      numbers.push_back(*truth ? 1 : 0);
      continue;
    }
    const auto number = AsInt(value);
    if (!number) return WrongType(key, "integers of at most 63 bits");
    numbers.push_back(*number);
  }
  return numbers;
}

absl::StatusOr<std::vector<float>> GgufFile::Floats(std::string_view key) const {
  FTUNE_ASSIGN_OR_RETURN(const GgufArray array, Array(key));
  if (array.type != GgufType::kFloat32 && array.type != GgufType::kFloat64) {
    return WrongType(key, "an array of floating-point numbers");
  }
  std::vector<float> numbers;
  numbers.reserve(array.count);
  ByteReader reader(array.bytes);
  for (uint64_t i = 0; i < array.count; ++i) {
    GgufValue value;
    ReadScalar(reader, array.type, value);
    numbers.push_back(static_cast<float>(std::get<double>(value)));
  }
  return numbers;
}

absl::StatusOr<std::vector<std::string_view>> GgufFile::Strings(std::string_view key) const {
  FTUNE_ASSIGN_OR_RETURN(const GgufArray array, Array(key));
  if (array.type != GgufType::kString) return WrongType(key, "an array of strings");
  std::vector<std::string_view> texts;
  texts.reserve(array.count);
  ByteReader reader(array.bytes);
  for (uint64_t i = 0; i < array.count; ++i) {
    std::string_view text;
    reader.ReadString(text);
    texts.push_back(text);
  }
  return texts;
}

absl::StatusOr<int64_t> GgufFile::IntOr(std::string_view key, int64_t fallback) const {
  if (!Has(key)) return fallback;
  return Int(key);
}
absl::StatusOr<double> GgufFile::FloatOr(std::string_view key, double fallback) const {
  if (!Has(key)) return fallback;
  return Float(key);
}
absl::StatusOr<bool> GgufFile::BoolOr(std::string_view key, bool fallback) const {
  if (!Has(key)) return fallback;
  return Bool(key);
}
absl::StatusOr<std::string> GgufFile::StringOr(std::string_view key, std::string_view fallback) const {
  if (!Has(key)) return std::string(fallback);
  return String(key);
}

}  // namespace ftune
