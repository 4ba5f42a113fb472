// Writes the GGUF container, version 3: metadata, then tensors. Format:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "base/dtype.h"
#include "base/gguf.h"

namespace ftune {

// Keys and values in the order in which they are added; a key must be added once only.
class GgufMetadata {
 public:
  void Add(std::string_view key, uint8_t value);
  void Add(std::string_view key, int8_t value);
  void Add(std::string_view key, uint16_t value);
  void Add(std::string_view key, int16_t value);
  void Add(std::string_view key, uint32_t value);
  void Add(std::string_view key, int32_t value);
  void Add(std::string_view key, uint64_t value);
  void Add(std::string_view key, int64_t value);
  void Add(std::string_view key, float value);
  void Add(std::string_view key, double value);
  void Add(std::string_view key, bool value);
  void Add(std::string_view key, std::string_view text);
  void Add(std::string_view key, const char* text) { Add(key, std::string_view(text)); }
  void Add(std::string_view key, std::span<const int32_t> values);
  void Add(std::string_view key, std::span<const float> values);
  void Add(std::string_view key, std::span<const std::string> texts);
  // A value of another file, whatever its type.
  void Add(const GgufEntry& entry);

  bool Has(std::string_view key) const { return keys_.contains(key); }
  uint64_t count() const { return keys_.size(); }
  const std::string& bytes() const { return bytes_; }

 private:
  void AddKey(std::string_view key, GgufType type);
  template <class T>
  void AddArray(std::string_view key, GgufType type, std::span<const T> values);

  std::string bytes_;
  std::set<std::string, std::less<>> keys_;
};

struct GgufTensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // row-major, as PyTorch has it
};

// Writes one file, atomically, without holding more than the caller gives at a time.
class GgufWriter {
 public:
  // Errors name the tensor: a type that GGUF does not have, more than four dimensions, a name that stands
  // twice, rows that do not fill whole blocks.
  static absl::StatusOr<GgufWriter> Create(const std::filesystem::path& path, const GgufMetadata& metadata,
                                           const std::vector<GgufTensorSpec>& tensors);
  // The tensors' bytes in the order of Create, in pieces of any size that do not reach over a tensor's end.
  absl::Status Append(std::span<const std::byte> bytes);
  // Makes the file appear. An error if fewer bytes were appended than the tensors have.
  absl::Status Finish();

 private:
  GgufWriter(AtomicFile file, std::vector<int64_t> sizes)
      : file_(std::move(file)), sizes_(std::move(sizes)) {}

  AtomicFile file_;
  std::vector<int64_t> sizes_;  // bytes of each tensor
  size_t tensor_ = 0;           // the one being written
  int64_t written_ = 0;         // of its bytes
};

}  // namespace ftune
