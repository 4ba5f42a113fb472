#include "base/dtype.h"

#include <array>

#include "base/block_quant.h"
#include "base/strings.h"

namespace ftune {
namespace {

struct Row {
  DType dtype;
  std::string_view name;         // ftune's
  std::string_view safetensors;  // "" where that format has none
  std::string_view torch;        // "" where PyTorch has none
  int block_size;
  int block_bytes;
  bool is_float;
};

constexpr std::array<Row, 27> kRows = {{
    {DType::kF32, "f32", "F32", "float32", 1, 4, true},
    {DType::kF16, "f16", "F16", "float16", 1, 2, true},
    {DType::kBF16, "bf16", "BF16", "bfloat16", 1, 2, true},
    {DType::kF64, "f64", "F64", "float64", 1, 8, true},
    {DType::kI8, "i8", "I8", "int8", 1, 1, false},
    {DType::kU8, "u8", "U8", "uint8", 1, 1, false},
    {DType::kI16, "i16", "I16", "int16", 1, 2, false},
    {DType::kU16, "u16", "U16", "uint16", 1, 2, false},
    {DType::kI32, "i32", "I32", "int32", 1, 4, false},
    {DType::kU32, "u32", "U32", "uint32", 1, 4, false},
    {DType::kI64, "i64", "I64", "int64", 1, 8, false},
    {DType::kU64, "u64", "U64", "uint64", 1, 8, false},
    {DType::kBool, "bool", "BOOL", "bool", 1, 1, false},
    {DType::kQ4_0, "q4_0", "", "", 32, 18, true},
    {DType::kQ4_1, "q4_1", "", "", 32, 20, true},
    {DType::kQ8_0, "q8_0", "", "", 32, 34, true},
    {DType::kQ5_0, "q5_0", "", "", 32, 22, true},
    {DType::kQ5_1, "q5_1", "", "", 32, 24, true},
    {DType::kQ2_K, "q2_k", "", "", 256, 84, true},
    {DType::kQ3_K, "q3_k", "", "", 256, 110, true},
    {DType::kQ4_K, "q4_k", "", "", 256, 144, true},
    {DType::kQ5_K, "q5_k", "", "", 256, 176, true},
    {DType::kQ6_K, "q6_k", "", "", 256, 210, true},
    {DType::kIQ4_NL, "iq4_nl", "", "", 32, 18, true},
    {DType::kNF4, "nf4", "", "", 64, 33, true},
    {DType::kFP4, "fp4", "", "", 64, 33, true},
    {DType::kInt8, "int8_blocks", "", "", 64, 68, true},
}};

const Row& RowOf(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

constexpr bool RowsAreInEnumOrder() {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<size_t>(kRows[i].dtype) != i) return false;
  }
  return true;
}
static_assert(RowsAreInEnumOrder());

}  // namespace

int64_t BlockSize(DType dtype) { return RowOf(dtype).block_size; }
int64_t BlockBytes(DType dtype) { return RowOf(dtype).block_bytes; }
int64_t BytesFor(DType dtype, int64_t count) {
  if (IsQuantizedWhole(dtype)) return BlockQuantLayout(dtype, count).bytes;
  return count / BlockSize(dtype) * BlockBytes(dtype);
}
bool IsFloat(DType dtype) { return RowOf(dtype).is_float; }
std::string_view Name(DType dtype) { return RowOf(dtype).name; }
std::string_view SafetensorsName(DType dtype) { return RowOf(dtype).safetensors; }

absl::StatusOr<DType> ParseDType(std::string_view text) {
  const std::string lower = Lower(text);
  for (const Row& row : kRows) {
    if (lower == row.name || lower == row.torch) return row.dtype;
    if (!row.safetensors.empty() && text == row.safetensors) return row.dtype;
  }
  if (lower == "fp32") return DType::kF32;
  if (lower == "fp16") return DType::kF16;
  return absl::InvalidArgumentError(StrCat("unknown dtype '", text, "'"));
}

}  // namespace ftune
