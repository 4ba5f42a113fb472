#include "base/ggml_types.h"

#include <string_view>
#include <vector>

#include "base/strings.h"

namespace ftune {
namespace {

struct Row {
  uint32_t number;
  std::string_view name;
  std::optional<DType> dtype = std::nullopt;
};
// ggml_type of ggml.h; numbers that are not here were removed from the format.
constexpr Row kRows[] = {
    {0, "F32", DType::kF32},
    {1, "F16", DType::kF16},
    {2, "Q4_0", DType::kQ4_0},
    {3, "Q4_1", DType::kQ4_1},
    {6, "Q5_0", DType::kQ5_0},
    {7, "Q5_1", DType::kQ5_1},
    {8, "Q8_0", DType::kQ8_0},
    {9, "Q8_1"},
    {10, "Q2_K", DType::kQ2_K},
    {11, "Q3_K", DType::kQ3_K},
    {12, "Q4_K", DType::kQ4_K},
    {13, "Q5_K", DType::kQ5_K},
    {14, "Q6_K", DType::kQ6_K},
    {15, "Q8_K"},
    {16, "IQ2_XXS"},
    {17, "IQ2_XS"},
    {18, "IQ3_XXS"},
    {19, "IQ1_S"},
    {20, "IQ4_NL", DType::kIQ4_NL},
    {21, "IQ3_S"},
    {22, "IQ2_S"},
    {23, "IQ4_XS"},
    {24, "I8", DType::kI8},
    {25, "I16", DType::kI16},
    {26, "I32", DType::kI32},
    {27, "I64", DType::kI64},
    {28, "F64", DType::kF64},
    {29, "IQ1_M"},
    {30, "BF16", DType::kBF16},
    {34, "TQ1_0"},
    {35, "TQ2_0"},
    {39, "MXFP4"},
    {40, "NVFP4"},
    {41, "Q1_0"},
};

}  // namespace

std::optional<DType> DTypeOfGgml(uint32_t ggml_type) {
  for (const Row& row : kRows) {
    if (row.number == ggml_type) return row.dtype;
  }
  return std::nullopt;
}

std::optional<uint32_t> GgmlTypeOf(DType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row.number;
  }
  return std::nullopt;
}

std::string GgmlTypeName(uint32_t ggml_type) {
  for (const Row& row : kRows) {
    if (row.number == ggml_type) return std::string(row.name);
  }
  return StrCat("type ", ggml_type);
}

std::string ReadableGgmlTypes() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) {
    if (row.dtype && IsFloat(*row.dtype) && *row.dtype != DType::kF64) names.push_back(row.name);
  }
  return StrJoin(names, ", ");
}

}  // namespace ftune
