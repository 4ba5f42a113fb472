// The GGUF container, versions 2 and 3: typed metadata and tensors. Format:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/ggml_types.h"
#include "base/mapped_file.h"

namespace ftune {

enum class GgufType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

// The elements lie in the mapping as the file has them; GgufFile's accessors decode them.
struct GgufArray {
  GgufType type = GgufType::kUint8;
  uint64_t count = 0;
  std::span<const std::byte> bytes;
};

// Signed integers, unsigned ones, floating point, text inside the mapping.
using GgufValue = std::variant<int64_t, uint64_t, double, bool, std::string_view, GgufArray>;

// A metadata value as the file has it: the number of its type (u32), then its bytes.
struct GgufEntry {
  std::string key;
  std::span<const std::byte> encoded;  // inside the mapping
};

struct GgufTensor {
  std::string name;
  uint32_t ggml_type = 0;
  std::optional<DType> dtype;        // absent for types that DType does not have; `bytes` is then empty
  std::vector<int64_t> shape;        // row-major, as PyTorch has it: the file's dimensions reversed
  std::span<const std::byte> bytes;  // inside the mapping
};

class GgufFile {
 public:
  // Checks all counts, lengths and offsets of the file, which may be hostile. Errors name the file and the
  // key or tensor. Tensors of an unsupported type are no error here.
  static absl::StatusOr<GgufFile> Open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  uint32_t version() const { return version_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const std::vector<GgufEntry>& entries() const { return entries_; }   // in the file's order
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in the file's order
  const GgufTensor* FindTensor(std::string_view name) const;           // nullptr if absent
  bool Has(std::string_view key) const { return metadata_.find(key) != metadata_.end(); }

  // Metadata by key; an absent key or another type is an error that names it. Integers of any width are one
  // type.
  absl::StatusOr<int64_t> Int(std::string_view key) const;
  absl::StatusOr<double> Float(std::string_view key) const;  // integers too
  absl::StatusOr<bool> Bool(std::string_view key) const;
  absl::StatusOr<std::string> String(std::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> Ints(std::string_view key) const;  // bools as 0 and 1
  absl::StatusOr<std::vector<float>> Floats(std::string_view key) const;  // of 32 or 64 bits
  absl::StatusOr<std::vector<std::string_view>> Strings(std::string_view key) const;
  // The same, with a value for an absent key.
  absl::StatusOr<int64_t> IntOr(std::string_view key, int64_t fallback) const;
  absl::StatusOr<double> FloatOr(std::string_view key, double fallback) const;
  absl::StatusOr<bool> BoolOr(std::string_view key, bool fallback) const;
  absl::StatusOr<std::string> StringOr(std::string_view key, std::string_view fallback) const;

 private:
  friend class GgufParser;
  explicit GgufFile(MappedFile file) : file_(std::move(file)) {}
  absl::StatusOr<const GgufValue*> Require(std::string_view key) const;
  absl::StatusOr<GgufArray> Array(std::string_view key) const;
  absl::Status WrongType(std::string_view key, std::string_view expected) const;

  MappedFile file_;
  uint32_t version_ = 0;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufEntry> entries_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace ftune
