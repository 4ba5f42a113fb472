#include "cmd/bench/bench_report.h"

#include "absl/strings/str_format.h"
#include "base/strings.h"

namespace ftune {
namespace {

std::string RateText(const OpRate& rate) {
  std::string text;
  if (rate.flops > 0) StrAppend(text, absl::StrFormat("%8.1f GFLOP/s", 1e-9 * rate.flops));
  if (rate.bytes > 0) StrAppend(text, absl::StrFormat("%8.1f GB/s   ", 1e-9 * rate.bytes));
  return StrCat(text, absl::StrFormat(", %.1f us a call", 1e6 * rate.seconds));
}

std::string LinkText(const LinkModel& link) {
  return absl::StrFormat("%8.1f GB/s, %.1f us a hop\n", 1e-9 * link.bandwidth, 1e6 * link.latency);
}

nlohmann::ordered_json LinkJson(const LinkModel& link) {
  return {{"bandwidth", link.bandwidth}, {"latency", link.latency}};
}

}  // namespace

std::string DeviceText(const DeviceModel& device) {
  std::string text;
  for (const auto& [dtype, rates] : device.products) {
    StrAppend(text, absl::StrFormat("products %-12s", Name(dtype)));
    for (const ProductRate& rate : rates) {
      StrAppend(text, absl::StrFormat("  %d: %.1f", rate.smallest, 1e-9 * rate.flops));
    }
    StrAppend(text, "  GFLOP/s by the smallest size\n");
  }
  for (size_t op = 0; op < kOpClasses; ++op) {
    StrAppend(text, absl::StrFormat("%-21s", kOpClassNames[op]), RateText(device.rates[op]), "\n");
  }
  StrAppend(text, "between ranks        ", LinkText(device.in_host));
  StrAppend(text, "by TCP, in this host ", LinkText(device.network));
  return text;
}

nlohmann::ordered_json DeviceJson(const DeviceModel& device) {
  nlohmann::ordered_json json = {{"name", device.name},
                                 {"memory", device.memory},
                                 {"per_host", device.per_host},
                                 {"runtime", device.runtime},
                                 {"fragmentation", device.fragmentation}};
  for (const auto& [dtype, flops] : device.peak) json["peak"][Name(dtype)] = flops;
  for (const auto& [dtype, rates] : device.products) {
    for (const ProductRate& rate : rates) {
      json["products"][Name(dtype)].push_back({{"smallest", rate.smallest}, {"flops", rate.flops}});
    }
  }
  for (size_t op = 0; op < kOpClasses; ++op) {
    const OpRate& rate = device.rates[op];
    json["rates"][kOpClassNames[op]] = {
        {"bytes", rate.bytes}, {"flops", rate.flops}, {"seconds", rate.seconds}};
  }
  json["in_host"] = LinkJson(device.in_host);
  json["network"] = LinkJson(device.network);
  json["to_host"] = LinkJson(device.to_host);
  return json;
}

}  // namespace ftune
