// Bytes read front to back, once.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"

namespace ftune {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to `size` > 0 bytes into `to`; 0 only at the end, of which that is said with certainty: a source that
  // was cut off or changed is an error. Errors name the file.
  virtual absl::StatusOr<size_t> Read(char* to, size_t size) = 0;
};

}  // namespace ftune
