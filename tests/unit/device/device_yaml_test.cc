#include "cmd/device/device_yaml.h"

#include <doctest/doctest.h>

#include <string>

#include "base/strings.h"
#include "cmd/device/catalogue.h"

namespace ftune {
namespace {

constexpr char kSheet[] = R"(name: mine
memory: 16GiB
per_host: 2
runtime: 1GB
fragmentation: 0.1
activations: bf16
peak: {f32: 50e12, bf16: 100e12}
memory_bandwidth: 1e12
call_seconds: 5e-6
efficiency: {product: 0.8, attention: 0.5, attention_backward: 0.4, stream: 0.9}
in_host: {bandwidth: 20e9, latency: 1e-5}
network: {bandwidth: 3e9}
)";

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<DeviceModel> device = ParseDevice(text, "d.yaml");
  REQUIRE(!device.ok());
  return std::string(device.status().message());
}

const OpRate& RateOf(const DeviceModel& device, OpClass op) { return device.rates[static_cast<size_t>(op)]; }

TEST_CASE("rates follow from a data sheet and what is reached of it") {
  const absl::StatusOr<DeviceModel> device = ParseDevice(kSheet, "d.yaml");
  REQUIRE_MESSAGE(device.ok(), device.status().message());
  CHECK(device->memory == int64_t{16} << 30);
  CHECK(device->runtime == 1000000000);
  CHECK(device->per_host == 2);
  CHECK(device->activations == DType::kBF16);
  CHECK(device->products.at(DType::kBF16).back() == ProductRate{128, 80e12});
  CHECK(device->products.at(DType::kF32).front() == ProductRate{8, 40e12 / 16});
  CHECK(RateOf(*device, OpClass::kNorm) == OpRate{.bytes = 0.9e12, .seconds = 5e-6});
  CHECK(RateOf(*device, OpClass::kAttention).flops == 50e12);
  CHECK(RateOf(*device, OpClass::kAttentionBackward).flops == 40e12);
  CHECK(device->in_host == LinkModel{1e-5, 20e9});
  CHECK(device->network == LinkModel{0.0, 3e9});
}

TEST_CASE("what an entry says of a rate counts more than what would follow") {
  const absl::StatusOr<DeviceModel> device =
      ParseDevice(StrCat(kSheet, "rates: {norm: {bytes: 1e11, seconds: 1e-6}}\n",
                         "products: {bf16: [{smallest: 4, flops: 1e12}]}\n"),
                  "d.yaml");
  REQUIRE_MESSAGE(device.ok(), device.status().message());
  CHECK(RateOf(*device, OpClass::kNorm) == OpRate{.bytes = 1e11, .seconds = 1e-6});
  CHECK(RateOf(*device, OpClass::kRope).bytes == 0.9e12);
  CHECK(device->products.at(DType::kBF16).size() == 1);
  CHECK(device->products.at(DType::kF32).size() == 2);
}

TEST_CASE("all built-in devices can be read, are whole, and read back equal") {
  const std::vector<std::string> names = DeviceNames();
  CHECK(names.size() == 11);
  for (const std::string& name : names) {
    CAPTURE(name);
    const std::optional<DeviceModel> device = FindDevice(Lower(name));
    REQUIRE(device);
    CHECK(device->peak.contains(device->activations));
    CHECK(device->memory > int64_t{20} << 30);
    CHECK(device->runtime > 0);
    for (const LinkModel& link : {device->in_host, device->network, device->to_host, device->disk}) {
      CHECK(link.latency > 0);
      CHECK(link.bandwidth >= 1e9);
    }
    const absl::StatusOr<DeviceModel> again = ParseDevice(WriteDevice(*device), "again");
    REQUIRE_MESSAGE(again.ok(), again.status().message());
    CHECK(*again == *device);
  }
  CHECK(!FindDevice("A100"));
}

TEST_CASE("what is wrong in an entry is said with its line, all at once") {
  const std::string two =
      ErrorOf(Replaced(Replaced(kSheet, "memory: 16GiB", "memroy: 16GiB"), "per_host: 2", "per_host: two"));
  CHECK(two.find("d.yaml:2: error: memroy: unknown key") != std::string::npos);
  CHECK(two.find("did you mean memory?") != std::string::npos);
  CHECK(two.find("d.yaml:3: error: per_host: found two, expected a whole number") != std::string::npos);

  const auto says = [](const std::string& from, const std::string& to, const std::string& what) {
    const std::string error = ErrorOf(Replaced(kSheet, from, to));
    CAPTURE(error);
    CHECK(error.find(what) != std::string::npos);
  };
  says("memory: 16GiB\n", "", "d.yaml: error: memory: missing");
  says("memory: 16GiB", "memory: 0", "d.yaml:2: error: memory: found 0");
  says("name: mine\n", "", "name: missing");
  says("network: {bandwidth: 3e9}", "", "network: missing");
  says("bandwidth: 3e9", "latency: 1e-6", "d.yaml:12: error: network: has no bandwidth");
  says("bandwidth: 3e9", "bandwidth: 0",
       "d.yaml:12: error: network.bandwidth: found 0, expected a number above");
  says("bandwidth: 3e9", "bandwidth: -3e9", "network.bandwidth: found -3e9");
  says("bandwidth: 3e9", "bandwidth: fast", "network.bandwidth: found fast");
  says("bf16: 100e12", "bf17: 100e12", "d.yaml:7: error: peak.bf17: unknown key");
  says("bf16: 100e12", "f32: 100e12", "peak.f32: given twice");
  says(", bf16: 100e12", "", "peak.bf16: missing");
  says("product: 0.8", "product: 1.8", "efficiency.product: found 1.8");
  says(", stream: 0.9", "", "efficiency.stream: missing");
  says("memory_bandwidth: 1e12\n", "", "memory_bandwidth: missing");
  says("activations: bf16", "activations: int8", "activations: found int8");
  says("efficiency: {product: 0.8, attention: 0.5, attention_backward: 0.4, stream: 0.9}\n", "",
       "rates.attention_backward: missing");
  CHECK(ErrorOf("- a\n- b\n").find("d.yaml:1: error: found a list") != std::string::npos);
  CHECK(ErrorOf("").find("found nothing") != std::string::npos);
  CHECK(ErrorOf(StrCat(kSheet, "products: {f32: [{smallest: 8, flops: 2}, {smallest: 8, flops: 1}]}\n"))
            .find("products.f32: sizes are not in ascending order") != std::string::npos);
  CHECK(ErrorOf(StrCat(kSheet, "rates: {nrom: 1}\n")).find("did you mean norm?") != std::string::npos);
}

}  // namespace
}  // namespace ftune
