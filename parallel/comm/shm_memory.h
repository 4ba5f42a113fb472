// Memory that processes of one host share: it has no name in any file system and is gone with the last
// process that maps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "base/descriptor.h"

namespace ftune {

class ShmMemory {
 public:
  // Errors have the system's words only.
  // New, zero, in whole pages. `descriptor` is what another process maps; none is needed to keep the memory.
  static absl::StatusOr<std::unique_ptr<ShmMemory>> Create(int64_t bytes, Descriptor& descriptor);
  static absl::StatusOr<std::unique_ptr<ShmMemory>> Map(const Descriptor& descriptor, int64_t bytes);
  ~ShmMemory();
  ShmMemory(const ShmMemory&) = delete;
  ShmMemory& operator=(const ShmMemory&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Gives the pages back, whoever still maps them; they read as zero.
  void Discard();

 private:
  ShmMemory(std::byte* data, int64_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_;
  int64_t bytes_;
};

}  // namespace ftune
