// The safetensors container: 8 bytes of header length, a JSON header, raw tensors. Format:
// https://github.com/huggingface/safetensors (README, "Format").
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "base/dtype.h"
#include "base/mapped_file.h"

namespace ftune {

struct SafetensorsEntry {
  std::string name;
  std::string dtype_name;      // as the file has it
  std::optional<DType> dtype;  // absent for types that DType does not have (F8_E4M3 …)
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // inside the mapping
};

class SafetensorsFile {
 public:
  // Checks the whole header: its length, the JSON, duplicate names, that the tensors tile the data without
  // gap or overlap and end at the end of the file, and that each one's bytes fit its shape. Errors name the
  // file and tensor.
  static absl::StatusOr<SafetensorsFile> Open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  // sorted by name
  const SafetensorsEntry* Find(std::string_view name) const;                 // nullptr if absent
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  explicit SafetensorsFile(MappedFile file) : file_(std::move(file)) {}
  absl::Status ReadHeader();

  MappedFile file_;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

struct SafetensorsSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

// What a file begins with, the length included, and behind which the tensors' bytes follow in this order; a
// multiple of `alignment` bytes, itself one of 8. `file` is for errors: a tensor that is given twice, or of a
// type that the format does not have. `data_bytes`, where given, is set to the bytes of all tensors.
absl::StatusOr<std::string> SafetensorsHeader(const std::string& file,
                                              const std::vector<SafetensorsSpec>& tensors, size_t alignment,
                                              int64_t* data_bytes = nullptr);

// Writes one file, atomically, without holding more than the caller gives at a time. Data of several element
// sizes should be given largest size first, so that each tensor stays aligned.
class SafetensorsWriter {
 public:
  // The metadata is what transformers asks for: {"format": "pt"}.
  static absl::StatusOr<SafetensorsWriter> Create(const std::filesystem::path& path,
                                                  std::vector<SafetensorsSpec> tensors);
  // The tensors' bytes in the order of Create, in pieces of any size.
  absl::Status Append(std::span<const std::byte> bytes);
  // Makes the file appear. An error if fewer bytes were appended than the tensors have.
  absl::Status Finish();

 private:
  SafetensorsWriter(AtomicFile file, int64_t remaining) : file_(std::move(file)), remaining_(remaining) {}

  AtomicFile file_;
  int64_t remaining_;
};

}  // namespace ftune
