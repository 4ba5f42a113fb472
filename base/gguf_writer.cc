#include "base/gguf_writer.h"

#include <cassert>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/ggml_types.h"
#include "base/gguf_format.h"
#include "base/strings.h"
#include "base/tensor_bytes.h"

namespace ftune {
namespace {

template <class T>
void Put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
void Put(std::string& bytes, std::string_view text) {
  Put<uint64_t>(bytes, text.size());
  bytes += text;
}
void Put(std::string& bytes, const std::string& text) { Put(bytes, std::string_view(text)); }

uint64_t Padding(uint64_t size) {
  return (gguf::kDefaultAlignment - size % gguf::kDefaultAlignment) % gguf::kDefaultAlignment;
}

}  // namespace

void GgufMetadata::AddKey(std::string_view key, GgufType type) {
  const bool is_new = keys_.emplace(key).second;
  assert(is_new);
  static_cast<void>(is_new);
  Put(bytes_, key);
  Put(bytes_, static_cast<uint32_t>(type));
}

template <class T>
void GgufMetadata::AddArray(std::string_view key, GgufType type, std::span<const T> values) {
  AddKey(key, GgufType::kArray);
  Put(bytes_, static_cast<uint32_t>(type));
  Put<uint64_t>(bytes_, values.size());
  for (const T& value : values) Put(bytes_, value);
}

void GgufMetadata::Add(std::string_view key, uint8_t value) {
  AddKey(key, GgufType::kUint8);
  Put(bytes_, value);
}
void GgufMetadata::Add(std::string_view key, int8_t value) {
  AddKey(key, GgufType::kInt8);
  Put(bytes_, value);
}
void GgufMetadata::Add(std::string_view key, uint16_t value) {
  AddKey(key, GgufType::kUint16);
  Put(bytes_, value);
}
void GgufMetadata::Add(std::string_view key, int16_t value) {
  AddKey(key, GgufType::kInt16);
  Put(bytes_, value);
}
void GgufMetadata::Add(std::string_view key, uint32_t value) {
  AddKey(key, GgufType::kUint32);
  Put(bytes_, value);
}
void GgufMetadata::Add(std::string_view key, int32_t value) {
  AddKey(key, GgufType::kInt32);
  Put(bytes_, value);
}
void GgufMetadata::Add(std::string_view key, uint64_t value) {
  AddKey(key, GgufType::kUint64);
  Put(bytes_, value);
}
void GgufMetadata::Add(std::string_view key, int64_t value) {
  AddKey(key, GgufType::kInt64);
  Put(bytes_, value);
}
void GgufMetadata::Add(std::string_view key, float value) {
  AddKey(key, GgufType::kFloat32);
  Put(bytes_, value);
}
void GgufMetadata::Add(std::string_view key, double value) {
  AddKey(key, GgufType::kFloat64);
  Put(bytes_, value);
}
void GgufMetadata::Add(std::string_view key, bool value) {
  AddKey(key, GgufType::kBool);
  Put<uint8_t>(bytes_, value ? 1 : 0);
}
void GgufMetadata::Add(std::string_view key, std::string_view text) {
  AddKey(key, GgufType::kString);
  Put(bytes_, text);
}
void GgufMetadata::Add(std::string_view key, std::span<const int32_t> values) {
  AddArray(key, GgufType::kInt32, values);
}
void GgufMetadata::Add(std::string_view key, std::span<const float> values) {
  AddArray(key, GgufType::kFloat32, values);
}
void GgufMetadata::Add(std::string_view key, std::span<const std::string> texts) {
  AddArray(key, GgufType::kString, texts);
}

void GgufMetadata::Add(const GgufEntry& entry) {
  const bool is_new = keys_.insert(entry.key).second;
  assert(is_new);
  static_cast<void>(is_new);
  Put(bytes_, entry.key);
  bytes_.append(reinterpret_cast<const char*>(entry.encoded.data()), entry.encoded.size());
}

absl::StatusOr<GgufWriter> GgufWriter::Create(const std::filesystem::path& path, const GgufMetadata& metadata,
                                              const std::vector<GgufTensorSpec>& tensors) {
  std::string header(gguf::kMagic);
  Put(header, gguf::kVersion);
  Put<uint64_t>(header, tensors.size());
  Put<uint64_t>(header, metadata.count());
  header += metadata.bytes();
  std::vector<int64_t> sizes;
  std::set<std::string_view> names;
  uint64_t offset = 0;
  for (const GgufTensorSpec& tensor : tensors) {
    const auto fail = [&](std::string message) {
      return DataError({.file = path.string(), .key = tensor.name, .message = std::move(message)});
    };
    const std::optional<uint32_t> type = GgmlTypeOf(tensor.dtype);
    if (!type) return fail(StrCat("GGUF has no type for ", Name(tensor.dtype)));
    if (tensor.shape.size() > gguf::kMaxDims) {
      return fail(
          StrCat("GGUF has at most ", gguf::kMaxDims, " dimensions, the tensor ", tensor.shape.size()));
    }
    if (!names.insert(tensor.name).second) return fail("the tensor is given twice");
    const auto bytes = CheckedBytes(tensor.dtype, tensor.shape);
    if (!bytes.ok()) return fail(std::string(bytes.status().message()));
    Put(header, tensor.name);
    Put<uint32_t>(header, static_cast<uint32_t>(tensor.shape.size()));
    for (auto dim = tensor.shape.rbegin(); dim != tensor.shape.rend(); ++dim) {
      Put<uint64_t>(header, static_cast<uint64_t>(*dim));
    }
    Put<uint32_t>(header, *type);
    Put<uint64_t>(header, offset);
    sizes.push_back(*bytes);
    offset += static_cast<uint64_t>(*bytes) + Padding(static_cast<uint64_t>(*bytes));
  }
  header.append(Padding(header.size()), '\0');
  FTUNE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  FTUNE_RETURN_IF_ERROR(file.Append(header));
  return GgufWriter(std::move(file), std::move(sizes));
}

absl::Status GgufWriter::Append(std::span<const std::byte> bytes) {
  while (tensor_ < sizes_.size() && written_ == sizes_[tensor_]) {  // empty ones, too
    ++tensor_;
    written_ = 0;
  }
  if (bytes.empty()) return absl::OkStatus();
  const int64_t count = static_cast<int64_t>(bytes.size());
  if (tensor_ == sizes_.size() || count > sizes_[tensor_] - written_) {
    return absl::InternalError(StrCat(file_.path().string(), ": more bytes than the tensors have"));
  }
  FTUNE_RETURN_IF_ERROR(file_.Append(bytes));
  written_ += count;
  if (written_ < sizes_[tensor_]) return absl::OkStatus();
  return file_.Append(std::string(Padding(static_cast<uint64_t>(sizes_[tensor_])), '\0'));
}

absl::Status GgufWriter::Finish() {
  FTUNE_RETURN_IF_ERROR(Append({}));
  if (tensor_ != sizes_.size()) {
    return absl::InternalError(StrCat(file_.path().string(), ": fewer bytes than the tensors have"));
  }
  return file_.Commit();
}

}  // namespace ftune
