// Named weights of a model on disk, whatever the container, under Hugging Face parameter names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"

namespace ftune {

// One tensor of a WeightSource.
struct SourceTensor {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;        // row-major, as PyTorch has it: [out, in]
  std::span<const std::byte> bytes;  // see WeightSource::Fetch
  std::string file;
  // The file's name for a type that DType does not have ("F8_E4M3"); `dtype` says nothing then. Empty
  // otherwise.
  std::string unsupported_type;
  // GGUF stores Llama's q and k rows with the two rotary halves of each head interleaved. Heads in which rows
  // are to be put back in Hugging Face order while copying; 0 = copy as it is.
  int64_t interleaved_heads = 0;
  // To be added to each value while loading, in fp32.
  float added = 0.0f;
};

// Copies the tensor's bytes to `destination` (same dtype, Hugging Face row order).
void CopySourceTensor(const SourceTensor& tensor, std::byte* destination);

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual const std::vector<SourceTensor>& tensors() const = 0;  // sorted by name
  const SourceTensor* Find(std::string_view name) const;         // nullptr if absent
  // An error that names the tensor if it is absent or its type cannot be used.
  absl::StatusOr<const SourceTensor*> Get(std::string_view name) const;
  // One of the tensors with its bytes, which are there until it is released. A source that maps its files has
  // them from the beginning, and keeps them; of others all that is known before is their number.
  virtual absl::StatusOr<SourceTensor> Fetch(const SourceTensor& tensor) const { return tensor; }
  // The tensor has been copied: memory that merely mirrors its file may be given back. It can be fetched
  // again.
  virtual void Release(const SourceTensor&) const {}

 protected:
  // Where the tensors come from, for errors: a file or a folder.
  virtual std::string origin() const { return {}; }
};

}  // namespace ftune
