// A file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"

namespace ftune {

// Owns the mapping; pointers into bytes() stay valid when the object is moved. An empty file has no bytes. A
// file that another process shortens while it is mapped faults on access, as with every mapping.
class MappedFile {
 public:
  // An error names the file: missing, a folder, not a regular file, no permission.
  static absl::StatusOr<MappedFile> Open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  MappedFile(std::filesystem::path path, const std::byte* data, size_t size);

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Gives back the memory behind `bytes` of a mapping: they are read from the file again if they are looked at
// again.
void ForgetPages(std::span<const std::byte> bytes);

}  // namespace ftune
