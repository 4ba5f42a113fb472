// A tensor to be written, whose bytes are made when they are needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/dtype.h"

namespace ftune {

struct OutputTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // row-major
  // Writes all of the tensor's bytes to `out`. Called once, from the thread that writes the file.
  std::function<absl::Status(std::byte* out)> fill;
  // Where it stands among those of other stages, which come in ascending order of this: its block's number.
  size_t block = 0;
};

}  // namespace ftune
