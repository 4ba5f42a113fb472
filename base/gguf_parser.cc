#include "base/gguf_parser.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/ggml_types.h"
#include "base/gguf_format.h"
#include "base/strings.h"
#include "base/tensor_bytes.h"

namespace ftune {
namespace {

constexpr int kMaxArrayDepth = 8;
constexpr size_t kTypeCount = 13;

template <class Stored, class Wide>
bool ReadAs(ByteReader& reader, GgufValue& value) {
  Stored stored;
  if (!reader.Read(stored)) return false;
  value = static_cast<Wide>(stored);
  return true;
}

}  // namespace

size_t FixedSize(GgufType type) {
  static constexpr std::array<size_t, kTypeCount> kSizes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kSizes[static_cast<size_t>(type)];
}

bool ByteReader::ReadString(std::string_view& text) {
  uint64_t length = 0;
  const size_t start = position_;
  if (!Read(length)) return false;
  const char* data = reinterpret_cast<const char*>(bytes_.data()) + position_;
  if (!Skip(length)) {
    position_ = start;
    return false;
  }
  text = {data, length};
  return true;
}

bool ReadScalar(ByteReader& reader, GgufType type, GgufValue& value) {
  switch (type) {
    case GgufType::kUint8:
      return ReadAs<uint8_t, uint64_t>(reader, value);
    case GgufType::kInt8:
      return ReadAs<int8_t, int64_t>(reader, value);
    case GgufType::kUint16:
      return ReadAs<uint16_t, uint64_t>(reader, value);
    case GgufType::kInt16:
      return ReadAs<int16_t, int64_t>(reader, value);
    case GgufType::kUint32:
      return ReadAs<uint32_t, uint64_t>(reader, value);
    case GgufType::kInt32:
      return ReadAs<int32_t, int64_t>(reader, value);
    case GgufType::kUint64:
      return ReadAs<uint64_t, uint64_t>(reader, value);
    case GgufType::kInt64:
      return ReadAs<int64_t, int64_t>(reader, value);
    case GgufType::kFloat32:
      return ReadAs<float, double>(reader, value);
    case GgufType::kFloat64:
      return ReadAs<double, double>(reader, value);
    case GgufType::kBool: {
      uint8_t byte = 0;
      if (!reader.Read(byte)) return false;
      value = byte != 0;
      return true;
    }
    case GgufType::kString: {
      std::string_view text;
      if (!reader.ReadString(text)) return false;
      value = text;
      return true;
    }
    case GgufType::kArray:
      return false;
  }
  return false;
}

absl::Status GgufParser::Truncated(const std::string& key) const {
  return DataError({.file = file_.path().string(),
                    .key = key,
                    .message = StrCat("the GGUF file is cut off or broken at byte ", reader_.position()),
                    .hint = "copy or download it again"});
}

absl::Status GgufParser::Parse() {
  FTUNE_RETURN_IF_ERROR(ParsePreamble());
  FTUNE_RETURN_IF_ERROR(ParseMetadata());
  FTUNE_RETURN_IF_ERROR(ParseTensorInfos());
  return PlaceTensors();
}

absl::Status GgufParser::ParsePreamble() {
  const std::string file = file_.path().string();
  std::array<char, gguf::kMagic.size()> magic = {};
  if (!reader_.Read(magic) || std::string_view(magic.data(), magic.size()) != gguf::kMagic) {
    return DataError({.file = file, .message = "not a GGUF file: it does not begin with 'GGUF'"});
  }
  if (!reader_.Read(file_.version_)) return Truncated("");
  const uint32_t version = file_.version_;
  if (version < gguf::kMinVersion || version > gguf::kVersion) {
    const bool swapped = version != 0 && (version & 0xffffff) == 0;
    return DataError({.file = file,
                      .message = swapped ? "a big-endian GGUF file cannot be read" : "unknown GGUF version",
                      .found = swapped ? "" : StrCat(version),
                      .expected = swapped ? "a little-endian one" : "2 or 3"});
  }
  if (!reader_.Read(tensor_count_) || !reader_.Read(metadata_count_)) return Truncated("");
  return absl::OkStatus();
}

absl::Status GgufParser::ParseMetadata() {
  for (uint64_t i = 0; i < metadata_count_; ++i) {
    std::string_view text;
    uint32_t type = 0;
    if (!reader_.ReadString(text)) return Truncated(StrCat("metadata key ", i + 1, " of ", metadata_count_));
    const std::string key(text);
    const size_t begin = reader_.position();
    if (!reader_.Read(type)) return Truncated(key);
    FTUNE_ASSIGN_OR_RETURN(GgufValue value, ParseValue(type, key));
    file_.entries_.push_back({key, file_.file_.bytes().subspan(begin, reader_.position() - begin)});
    if (!file_.metadata_.emplace(key, std::move(value)).second) {
      return DataError(
          {.file = file_.path().string(), .key = key, .message = "the metadata key stands twice"});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<GgufValue> GgufParser::ParseValue(uint32_t type, const std::string& key) {
  const auto unknown = [&](uint32_t number) {
    return DataError({.file = file_.path().string(),
                      .key = key,
                      .message = "unknown GGUF metadata type",
                      .found = StrCat(number),
                      .expected = "0 to 12"});
  };
  if (type >= kTypeCount) return unknown(type);
  GgufValue value;
  if (static_cast<GgufType>(type) != GgufType::kArray) {
    if (!ReadScalar(reader_, static_cast<GgufType>(type), value)) return Truncated(key);
    return value;
  }
  uint32_t element = 0;
  GgufArray array;
  if (!reader_.Read(element) || !reader_.Read(array.count)) return Truncated(key);
  if (element >= kTypeCount) return unknown(element);
  array.type = static_cast<GgufType>(element);
  const size_t begin = reader_.position();
  FTUNE_RETURN_IF_ERROR(SkipElements(array.type, array.count, 0, key));
  array.bytes = file_.file_.bytes().subspan(begin, reader_.position() - begin);
  return GgufValue(array);
}

// Counts are not trusted: every element is walked or, if of fixed size, bounded by the bytes that remain.
absl::Status GgufParser::SkipElements(GgufType type, uint64_t count, int depth, const std::string& key) {
  if (depth > kMaxArrayDepth) {
    return DataError({.file = file_.path().string(), .key = key, .message = "arrays are nested too deeply"});
  }
  if (const size_t size = FixedSize(type); size > 0) {
    if (count > reader_.remaining() / size || !reader_.Skip(count * size)) return Truncated(key);
    return absl::OkStatus();
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (type == GgufType::kString) {
      std::string_view text;
      if (!reader_.ReadString(text)) return Truncated(key);
      continue;
    }
    uint32_t element = 0;
    uint64_t inner = 0;
    if (!reader_.Read(element) || !reader_.Read(inner) || element >= kTypeCount) return Truncated(key);
    FTUNE_RETURN_IF_ERROR(SkipElements(static_cast<GgufType>(element), inner, depth + 1, key));
  }
  return absl::OkStatus();
}

absl::Status GgufParser::ParseTensorInfos() {
  const std::string file = file_.path().string();
  std::set<std::string_view> names;
  for (uint64_t i = 0; i < tensor_count_; ++i) {
    std::string_view text;
    if (!reader_.ReadString(text)) return Truncated(StrCat("tensor ", i + 1, " of ", tensor_count_));
    GgufTensor tensor;
    tensor.name = std::string(text);
    if (!names.insert(text).second) {
      return DataError({.file = file, .key = tensor.name, .message = "the tensor stands twice"});
    }
    uint32_t dims = 0;
    if (!reader_.Read(dims)) return Truncated(tensor.name);
    if (dims > gguf::kMaxDims) {
      return DataError({.file = file,
                        .key = tensor.name,
                        .message = "too many dimensions",
                        .found = StrCat(dims),
                        .expected = StrCat("at most ", gguf::kMaxDims)});
    }
    for (uint32_t d = 0; d < dims; ++d) {
      int64_t dim = 0;
      if (!reader_.Read(dim)) return Truncated(tensor.name);
      tensor.shape.insert(tensor.shape.begin(), dim);
    }
    uint64_t offset = 0;
    if (!reader_.Read(tensor.ggml_type) || !reader_.Read(offset)) return Truncated(tensor.name);
    tensor.dtype = DTypeOfGgml(tensor.ggml_type);
    offsets_.push_back(offset);
    file_.tensors_.push_back(std::move(tensor));
  }
  return absl::OkStatus();
}

absl::Status GgufParser::PlaceTensors() {
  const std::string file = file_.path().string();
  FTUNE_ASSIGN_OR_RETURN(const int64_t alignment, file_.IntOr(gguf::kAlignmentKey, gguf::kDefaultAlignment));
  if (alignment <= 0 || alignment > (int64_t{1} << 30) || alignment % 8 != 0) {
    return DataError({.file = file,
                      .key = gguf::kAlignmentKey,
                      .found = StrCat(alignment),
                      .expected = "a positive multiple of 8"});
  }
  const uint64_t begin = (reader_.position() + alignment - 1) / alignment * alignment;
  const std::span<const std::byte> all = file_.file_.bytes();
  const std::span<const std::byte> data =
      begin <= all.size() ? all.subspan(begin) : std::span<const std::byte>();
  std::vector<std::pair<uint64_t, size_t>> order;  // offset, index
  for (size_t i = 0; i < file_.tensors_.size(); ++i) {
    GgufTensor& tensor = file_.tensors_[i];
    const uint64_t offset = offsets_[i];
    if (offset % alignment != 0) {
      return DataError({.file = file,
                        .key = tensor.name,
                        .message = "the tensor's offset is not aligned",
                        .found = StrCat(offset),
                        .expected = StrCat("a multiple of ", alignment)});
    }
    if (!tensor.dtype) continue;
    const auto bytes = CheckedBytes(*tensor.dtype, tensor.shape);
    if (!bytes.ok()) {
      return DataError({.file = file, .key = tensor.name, .message = std::string(bytes.status().message())});
    }
    const uint64_t size = static_cast<uint64_t>(*bytes);
    if (offset > data.size() || size > data.size() - offset) {
      return DataError({.file = file,
                        .key = tensor.name,
                        .message = "the tensor ends past the end of the file",
                        .found = StrCat(data.size(), " bytes of data"),
                        .expected = StrCat(size, " bytes from ", offset),
                        .hint = "the file is cut off: copy or download it again"});
    }
    tensor.bytes = data.subspan(offset, size);
    if (size > 0) order.emplace_back(offset, i);
  }
  std::sort(order.begin(), order.end());
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = file_.tensors_[order[i - 1].second];
    if (order[i - 1].first + before.bytes.size() > order[i].first) {
      return DataError({.file = file,
                        .key = file_.tensors_[order[i].second].name,
                        .message = StrCat("the tensor overlaps with ", before.name)});
    }
  }
  return absl::OkStatus();
}

}  // namespace ftune
