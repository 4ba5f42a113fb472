#include "base/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/json_file.h"
#include "base/strings.h"
#include "base/tensor_bytes.h"

namespace ftune {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the file's numbers are little-endian");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr size_t kHeaderAlignment = 8;
constexpr char kMetadataKey[] = "__metadata__";

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

std::string Show(const Range& range) { return StrCat("[", range.begin, ", ", range.end, "]"); }

absl::Status TensorError(const std::string& file, const std::string& tensor, std::string message,
                         std::string found = "", std::string expected = "", std::string hint = "") {
  return DataError({.file = file,
                    .key = tensor,
                    .message = std::move(message),
                    .found = std::move(found),
                    .expected = std::move(expected),
                    .hint = std::move(hint)});
}

absl::StatusOr<std::vector<int64_t>> ReadShape(const json& entry, const std::string& name,
                                               const std::string& file) {
  const auto shape = entry.find("shape");
  if (shape == entry.end() || !shape->is_array()) {
    return TensorError(file, name, "'shape' is missing or not a list", Excerpt(entry));
  }
  std::vector<int64_t> dims;
  for (const json& dim : *shape) {
    if (!dim.is_number_unsigned() || dim.get<uint64_t>() > INT64_MAX) {
      return TensorError(file, name, "bad dimension in 'shape'", Excerpt(dim), "an integer of 0 or more");
    }
    dims.push_back(dim.get<int64_t>());
  }
  return dims;
}

absl::StatusOr<Range> ReadOffsets(const json& entry, const std::string& name, const std::string& file) {
  const auto offsets = entry.find("data_offsets");
  if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2 ||
      !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned()) {
    return TensorError(file, name, "bad or missing 'data_offsets'",
                       offsets == entry.end() ? "nothing" : Excerpt(*offsets), "[begin, end]");
  }
  const Range range = {(*offsets)[0].get<uint64_t>(), (*offsets)[1].get<uint64_t>()};
  if (range.begin > range.end) {
    return TensorError(file, name, "'data_offsets' end before they begin", Show(range));
  }
  return range;
}

std::string ShowShape(const std::vector<int64_t>& shape) { return StrCat("[", StrJoin(shape, ", "), "]"); }

// An entry without its bytes (which Range says).
absl::StatusOr<SafetensorsEntry> ReadEntry(const json& value, const std::string& name, const Range& range,
                                           const std::string& file) {
  SafetensorsEntry entry;
  entry.name = name;
  const auto dtype = value.find("dtype");
  if (dtype == value.end() || !dtype->is_string()) {
    return TensorError(file, name, "'dtype' is missing or not a string", Excerpt(value));
  }
  entry.dtype_name = dtype->get<std::string>();
  FTUNE_ASSIGN_OR_RETURN(entry.shape, ReadShape(value, name, file));
  const auto parsed = ParseDType(entry.dtype_name);
  if (!parsed.ok() || SafetensorsName(*parsed) != entry.dtype_name) return entry;
  entry.dtype = *parsed;
  const auto bytes = CheckedBytes(*parsed, entry.shape);
  if (!bytes.ok()) return TensorError(file, name, std::string(bytes.status().message()));
  if (static_cast<uint64_t>(*bytes) != range.end - range.begin) {
    return TensorError(file, name, "'data_offsets' do not fit dtype and shape",
                       StrCat(range.end - range.begin, " bytes"),
                       StrCat(*bytes, " bytes for ", entry.dtype_name, " ", ShowShape(entry.shape)));
  }
  return entry;
}

}  // namespace

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::filesystem::path& path) {
  FTUNE_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  SafetensorsFile file(std::move(mapped));
  FTUNE_RETURN_IF_ERROR(file.ReadHeader());
  return file;
}

absl::Status SafetensorsFile::ReadHeader() {
  const std::string file = path().string();
  const std::span<const std::byte> bytes = file_.bytes();
  if (bytes.size() < kLengthBytes) {
    return DataError({.file = file,
                      .message = "not a safetensors file, or cut off",
                      .found = StrCat(bytes.size(), " bytes"),
                      .expected = "at least 8"});
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - kLengthBytes) {
    return DataError(
        {.file = file,
         .message = "not a safetensors file, or cut off: the header ends past the end of the file",
         .found = StrCat("a header of ", header_bytes, " bytes in a file of ", bytes.size())});
  }
  const std::string_view text = file_.text().substr(kLengthBytes, header_bytes);
  FTUNE_ASSIGN_OR_RETURN(const json header, ParseJson(text, file, {.reject_duplicate_keys = true}));
  if (!header.is_object()) {
    return DataError(
        {.file = file, .message = "the safetensors header is not a JSON object", .found = Excerpt(header)});
  }

  std::vector<std::pair<Range, SafetensorsEntry>> ranges;
  for (const auto& [name, value] : header.items()) {
    if (!value.is_object()) return TensorError(file, name, "not a JSON object", Excerpt(value));
    if (name == kMetadataKey) {
      for (const auto& [key, item] : value.items()) {
        if (!item.is_string()) {
          return TensorError(file, StrCat(kMetadataKey, ".", key), "", Excerpt(item), "a string");
        }
        metadata_[key] = item.get<std::string>();
      }
      continue;
    }
    FTUNE_ASSIGN_OR_RETURN(const Range range, ReadOffsets(value, name, file));
    FTUNE_ASSIGN_OR_RETURN(SafetensorsEntry entry, ReadEntry(value, name, range, file));
    ranges.emplace_back(range, std::move(entry));
  }

  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.begin, a.first.end) < std::pair(b.first.begin, b.first.end);
  });
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + header_bytes);
  uint64_t position = 0;
  for (auto& [range, entry] : ranges) {
    if (range.end > data.size()) {
      return TensorError(file, entry.name, "the tensor ends past the end of the file",
                         StrCat(data.size(), " bytes of data"), StrCat(range.end),
                         "the file is cut off: copy or download it again");
    }
    if (range.begin != position) {
      return TensorError(file, entry.name, "'data_offsets' leave a gap or overlap", Show(range),
                         StrCat("begin at ", position));
    }
    entry.bytes = data.subspan(range.begin, range.end - range.begin);
    position = range.end;
    entries_.push_back(std::move(entry));
  }
  if (position != data.size()) {
    return DataError(
        {.file = file,
         .message = StrCat(data.size() - position, " bytes after the last tensor belong to none")});
  }
  std::sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return absl::OkStatus();
}

const SafetensorsEntry* SafetensorsFile::Find(std::string_view name) const {
  const auto entry =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const SafetensorsEntry& a, std::string_view b) { return a.name < b; });
  return entry != entries_.end() && entry->name == name ? &*entry : nullptr;
}

absl::StatusOr<std::string> SafetensorsHeader(const std::string& file,
                                              const std::vector<SafetensorsSpec>& tensors, size_t alignment,
                                              int64_t* data_bytes) {
  // Put together entry by entry: a rank's checkpoint can have a hundred thousand.
  using Json = nlohmann::ordered_json;
  const auto dump = [](const Json& value) {
    return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  std::string text = StrCat("{", dump(kMetadataKey), ":", dump(Json::object({{"format", "pt"}})));
  std::unordered_set<std::string_view> names = {kMetadataKey};
  int64_t position = 0;
  for (const SafetensorsSpec& tensor : tensors) {
    if (SafetensorsName(tensor.dtype).empty()) {
      return TensorError(file, tensor.name, "safetensors cannot hold this dtype",
                         std::string(Name(tensor.dtype)));
    }
    if (!names.insert(tensor.name).second) return TensorError(file, tensor.name, "the tensor is given twice");
    const auto bytes = CheckedBytes(tensor.dtype, tensor.shape);
    if (!bytes.ok()) return TensorError(file, tensor.name, std::string(bytes.status().message()));
    const int64_t begin = position;
    if (__builtin_add_overflow(begin, *bytes, &position)) {
      return TensorError(file, tensor.name, "the file would be too large");
    }
    StrAppend(text, ",", dump(tensor.name), ":",
              dump(Json::object({{"dtype", SafetensorsName(tensor.dtype)},
                                 {"shape", tensor.shape},
                                 {"data_offsets", {begin, position}}})));
  }
  text += '}';
  // Spaces after the header keep the data aligned.
  const size_t whole = (kLengthBytes + text.size() + alignment - 1) / alignment * alignment;
  text.resize(whole - kLengthBytes, ' ');
  if (text.size() > kMaxHeaderBytes) {
    return DataError({.file = file, .message = "too many tensors for one safetensors file"});
  }
  if (data_bytes != nullptr) *data_bytes = position;
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + text;
}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(const std::filesystem::path& path,
                                                            std::vector<SafetensorsSpec> tensors) {
  int64_t data_bytes = 0;
  FTUNE_ASSIGN_OR_RETURN(const std::string header,
                         SafetensorsHeader(path.string(), tensors, kHeaderAlignment, &data_bytes));
  FTUNE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  FTUNE_RETURN_IF_ERROR(file.Append(header));
  return SafetensorsWriter(std::move(file), data_bytes);
}

absl::Status SafetensorsWriter::Append(std::span<const std::byte> bytes) {
  if (static_cast<int64_t>(bytes.size()) > remaining_) {
    return absl::InternalError(StrCat(file_.path().string(), ": more bytes than the declared tensors have"));
  }
  remaining_ -= static_cast<int64_t>(bytes.size());
  return file_.Append(bytes);
}

absl::Status SafetensorsWriter::Finish() {
  if (remaining_ != 0) {
    return absl::InternalError(
        StrCat(file_.path().string(), ": ", remaining_, " bytes of tensors were not given"));
  }
  return file_.Commit();
}

}  // namespace ftune
