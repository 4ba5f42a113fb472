#include "cmd/bench/bench_report.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/strings.h"

namespace ftune {
namespace {

std::string PerSecond(double amount, std::string_view unit) {
  return absl::StrFormat("%.1f G%s/s", 1e-9 * amount, unit);
}

std::string Line(std::string_view what, const std::string& reached, double seconds) {
  return absl::StrFormat("%-21s %14s %10.1f us\n", what, reached, 1e6 * seconds);
}

nlohmann::ordered_json LinkJson(const LinkModel& link) {
  return {{"bandwidth", link.bandwidth}, {"latency", link.latency}};
}

}  // namespace

std::string DeviceText(const DeviceModel& device) {
  std::string text = "products by the smallest of their sizes, in GFLOP/s\n";
  for (const auto& [dtype, rates] : device.products) {
    StrAppend(text, absl::StrFormat("  %-12s", Name(dtype)));
    for (const ProductRate& rate : rates) {
      StrAppend(text, absl::StrFormat("  %d: %.1f", rate.smallest, 1e-9 * rate.flops));
    }
    StrAppend(text, "\n");
  }
  StrAppend(text, "other ops, with the time of a tiny one\n");
  for (size_t op = 0; op < kOpClasses; ++op) {
    const OpRate& rate = device.rates[op];
    const std::string reached = rate.flops > 0 ? PerSecond(rate.flops, "FLOP") : PerSecond(rate.bytes, "B");
    StrAppend(text, "  ", Line(kOpClassNames[op], reached, rate.seconds));
  }
  StrAppend(text, "links, with the time of a hop\n");
  for (const auto& [what, link] : {std::pair("memory that is shared", device.in_host),
                                   {"TCP in this host", device.network},
                                   {"disk", device.disk}}) {
    StrAppend(text, "  ", Line(what, PerSecond(link.bandwidth, "B"), link.latency));
  }
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
  json["disk"] = LinkJson(device.disk);
  return json;
}

}  // namespace ftune
