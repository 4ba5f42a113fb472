#include "engine/plan/op_seconds.h"

#include <algorithm>
#include <cmath>

namespace ftune {
namespace {

double At(double amount, double rate) { return rate > 0 ? amount / rate : 0.0; }

}  // namespace

double ProductFlops(const DeviceModel& device, DType dtype, int64_t smallest) {
  auto found = device.products.find(dtype);
  if (found == device.products.end()) found = device.products.find(device.activations);
  if (found == device.products.end() || found->second.empty()) return 0.0;
  const std::vector<ProductRate>& rates = found->second;  // ascending
  const auto above = std::find_if(rates.begin(), rates.end(),
                                  [&](const ProductRate& rate) { return rate.smallest >= smallest; });
  if (above == rates.end()) return rates.back().flops;
  if (above == rates.begin() || above->smallest == smallest) return above->flops;
  const ProductRate& below = *(above - 1);
  const double share = std::log(static_cast<double>(smallest) / static_cast<double>(below.smallest)) /
                       std::log(static_cast<double>(above->smallest) / static_cast<double>(below.smallest));
  return below.flops * std::pow(above->flops / below.flops, share);
}

double OpSeconds(const DeviceModel& device, const OpWork& work) {
  const OpRate& rate = device.rates[static_cast<size_t>(work.op)];
  const double flops =
      work.op == OpClass::kProduct ? ProductFlops(device, work.dtype, work.smallest) : rate.flops;
  return rate.seconds + std::max(At(work.flops, flops), At(work.bytes, rate.bytes));
}

}  // namespace ftune
