#include "cmd/device/efficiency.h"

namespace ftune {
namespace {

// The tiles of cuBLAS' and CUTLASS' kernels are this wide in the smaller direction, and cut in steps of 8.
constexpr int64_t kTile = 128;
constexpr int64_t kSmallestTile = 8;

}  // namespace

std::map<DType, std::vector<ProductRate>> ProductsOf(const DataSheet& sheet, const Efficiency& reached) {
  std::map<DType, std::vector<ProductRate>> products;
  for (const auto& [dtype, peak] : sheet.peak) {
    const double whole = peak * reached.product;
    products[dtype] = {{kSmallestTile, whole * static_cast<double>(kSmallestTile) / kTile}, {kTile, whole}};
  }
  return products;
}

std::array<OpRate, kOpClasses> RatesOf(const DataSheet& sheet, const Efficiency& reached) {
  std::array<OpRate, kOpClasses> rates;
  rates.fill({.bytes = sheet.memory_bandwidth * reached.stream, .seconds = sheet.call_seconds});
  const double peak = sheet.peak.at(sheet.activations);
  rates[static_cast<size_t>(OpClass::kAttention)].flops = peak * reached.attention;
  rates[static_cast<size_t>(OpClass::kAttentionBackward)].flops = peak * reached.attention_backward;
  return rates;
}

}  // namespace ftune
