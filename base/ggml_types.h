// ggml's numbers and names of tensor types, beside DType.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/dtype.h"

namespace ftune {

// Nothing for types that DType does not have.
std::optional<DType> DTypeOfGgml(uint32_t ggml_type);
// Nothing for types that ggml does not have.
std::optional<uint32_t> GgmlTypeOf(DType dtype);
// "Q4_K"; "type 99" if there is none.
std::string GgmlTypeName(uint32_t ggml_type);
// The types that a weight in a GGUF file may have: "F32, F16, Q4_0, …".
std::string ReadableGgmlTypes();

}  // namespace ftune
