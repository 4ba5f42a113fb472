#include "cmd/device/catalogue.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "base/strings.h"
#include "cmd/device/device_yaml.h"

namespace ftune {
namespace {

// Where the numbers come from:
// - memory: what nvidia-smi and rocm-smi give as the total. peak and memory_bandwidth: the makers' data
// sheets,
//   dense; f32 is TF32 (on MI300X XF32) where there is one.
// - runtime: a context, the libraries of products and collectives with their buffers: what such tools show of
//   a process beside its allocator's memory. fragmentation: what Megatron-LM's memory model adds.
// - efficiency: what well-tuned kernels reach: products of thousands in each direction (cuBLAS, hipBLASLt),
// under
//   the device's power limit, FlashAttention-2 on 8k tokens, and copies of large tensors. They are rounded,
//   and not fitted to runs of any engine.
// - in_host and network: NVLinks at the rates of NCCL's src/graph/topo.h (20, 20.6 and 40.1 GB/s each), PCIe
// and
//   Infinity Fabric at 70-80 % of the wire, adapters at 94 %; latencies of a hop as in NCCL's
//   src/graph/tuning.cc, protocol Simple. Each device has its share of the host's adapters.
// - disk: as many bytes read as written, on four NVMe drives of PCIe 4.0 (B200: 5.0) as DeepSpeed's
//   DeepNVMe was measured to; cards in a host of their owner's choice: one drive.
constexpr std::array kEntries = {
    // A100 SXM4 40 GB in a DGX A100: 12 NVLinks of the third generation, a 200 Gb/s adapter for each.
    std::string_view(R"(name: A100-40G
memory: 40960MiB
per_host: 8
runtime: 1500MiB
fragmentation: 0.05
activations: bf16
peak: {f32: 156e12, bf16: 312e12, f16: 312e12}
memory_bandwidth: 1.555e12
call_seconds: 4e-6
efficiency: {product: 0.8, attention: 0.6, attention_backward: 0.5, stream: 0.85}
in_host: {bandwidth: 240e9, latency: 3.4e-6}
network: {bandwidth: 23.5e9, latency: 1.4e-5}
to_host: {bandwidth: 25e9, latency: 1e-5}
disk: {bandwidth: 6.7e9, latency: 1e-4}
)"),
    // A100 SXM4 80 GB; the rest as above.
    std::string_view(R"(name: A100-80G
memory: 81920MiB
per_host: 8
runtime: 1500MiB
fragmentation: 0.05
activations: bf16
peak: {f32: 156e12, bf16: 312e12, f16: 312e12}
memory_bandwidth: 2.039e12
call_seconds: 4e-6
efficiency: {product: 0.8, attention: 0.6, attention_backward: 0.5, stream: 0.85}
in_host: {bandwidth: 240e9, latency: 3.4e-6}
network: {bandwidth: 23.5e9, latency: 1.4e-5}
to_host: {bandwidth: 25e9, latency: 1e-5}
disk: {bandwidth: 6.7e9, latency: 1e-4}
)"),
    // H100 SXM5 80 GB in a DGX H100: 18 NVLinks of the fourth generation, a 400 Gb/s adapter for each. Large
    // products run into its 700 W.
    std::string_view(R"(name: H100-SXM
memory: 81559MiB
per_host: 8
runtime: 1800MiB
fragmentation: 0.05
activations: bf16
peak: {f32: 494.7e12, bf16: 989.4e12, f16: 989.4e12}
memory_bandwidth: 3.35e12
call_seconds: 4e-6
efficiency: {product: 0.7, attention: 0.4, attention_backward: 0.33, stream: 0.85}
in_host: {bandwidth: 370e9, latency: 3.4e-6}
network: {bandwidth: 47e9, latency: 1.4e-5}
to_host: {bandwidth: 50e9, latency: 1e-5}
disk: {bandwidth: 6.7e9, latency: 1e-4}
)"),
    // H100 PCIe 80 GB, 350 W, without NVLink bridges; one 400 Gb/s adapter for two.
    std::string_view(R"(name: H100-PCIe
memory: 81559MiB
per_host: 8
runtime: 1800MiB
fragmentation: 0.05
activations: bf16
peak: {f32: 378e12, bf16: 756e12, f16: 756e12}
memory_bandwidth: 2.0e12
call_seconds: 4e-6
efficiency: {product: 0.6, attention: 0.4, attention_backward: 0.33, stream: 0.85}
in_host: {bandwidth: 45e9, latency: 1e-5}
network: {bandwidth: 23.5e9, latency: 1.4e-5}
to_host: {bandwidth: 50e9, latency: 1e-5}
disk: {bandwidth: 2.5e9, latency: 1e-4}
)"),
    // H200 SXM 141 GB: an H100 SXM with other memory.
    std::string_view(R"(name: H200
memory: 143771MiB
per_host: 8
runtime: 1800MiB
fragmentation: 0.05
activations: bf16
peak: {f32: 494.7e12, bf16: 989.4e12, f16: 989.4e12}
memory_bandwidth: 4.8e12
call_seconds: 4e-6
efficiency: {product: 0.7, attention: 0.4, attention_backward: 0.33, stream: 0.85}
in_host: {bandwidth: 370e9, latency: 3.4e-6}
network: {bandwidth: 47e9, latency: 1.4e-5}
to_host: {bandwidth: 50e9, latency: 1e-5}
disk: {bandwidth: 6.7e9, latency: 1e-4}
)"),
    // B200 SXM in a DGX B200: 18 NVLinks of the fifth generation, a 400 Gb/s adapter for each.
    std::string_view(R"(name: B200
memory: 183359MiB
per_host: 8
runtime: 2000MiB
fragmentation: 0.05
activations: bf16
peak: {f32: 1125e12, bf16: 2250e12, f16: 2250e12}
memory_bandwidth: 7.7e12
call_seconds: 4e-6
efficiency: {product: 0.7, attention: 0.4, attention_backward: 0.33, stream: 0.85}
in_host: {bandwidth: 720e9, latency: 3.4e-6}
network: {bandwidth: 47e9, latency: 1.4e-5}
to_host: {bandwidth: 50e9, latency: 1e-5}
disk: {bandwidth: 15.6e9, latency: 1e-4}
)"),
    // L40S 48 GB, 350 W, PCIe 4.0; one 400 Gb/s adapter for four.
    std::string_view(R"(name: L40S
memory: 46068MiB
per_host: 8
runtime: 1200MiB
fragmentation: 0.05
activations: bf16
peak: {f32: 183e12, bf16: 362e12, f16: 362e12}
memory_bandwidth: 864e9
call_seconds: 4e-6
efficiency: {product: 0.6, attention: 0.5, attention_backward: 0.4, stream: 0.85}
in_host: {bandwidth: 20e9, latency: 1e-5}
network: {bandwidth: 11.7e9, latency: 1.4e-5}
to_host: {bandwidth: 25e9, latency: 1e-5}
disk: {bandwidth: 2.5e9, latency: 1e-4}
)"),
    // GeForce RTX 4090 24 GB, PCIe 4.0; no traffic between two but through the host's memory; one 100 Gb/s
    // adapter
    // for eight. It runs above the clock that its peak is stated for.
    std::string_view(R"(name: RTX4090
memory: 24564MiB
per_host: 8
runtime: 1000MiB
fragmentation: 0.05
activations: bf16
peak: {f32: 82.6e12, bf16: 165.2e12, f16: 165.2e12}
memory_bandwidth: 1.008e12
call_seconds: 4e-6
efficiency: {product: 0.9, attention: 0.7, attention_backward: 0.6, stream: 0.9}
in_host: {bandwidth: 10e9, latency: 1e-5}
network: {bandwidth: 1.5e9, latency: 1.4e-5}
to_host: {bandwidth: 22e9, latency: 1e-5}
disk: {bandwidth: 2.5e9, latency: 1e-4}
)"),
    // A10 24 GB, 150 W, PCIe 4.0; one 100 Gb/s adapter for four.
    std::string_view(R"(name: A10
memory: 23028MiB
per_host: 4
runtime: 1000MiB
fragmentation: 0.05
activations: bf16
peak: {f32: 62.5e12, bf16: 125e12, f16: 125e12}
memory_bandwidth: 600e9
call_seconds: 4e-6
efficiency: {product: 0.55, attention: 0.45, attention_backward: 0.35, stream: 0.85}
in_host: {bandwidth: 12e9, latency: 1e-5}
network: {bandwidth: 2.9e9, latency: 1.4e-5}
to_host: {bandwidth: 22e9, latency: 1e-5}
disk: {bandwidth: 2.5e9, latency: 1e-4}
)"),
    // V100 SXM2 32 GB in a DGX-1: 6 NVLinks of the second generation, four 100 Gb/s adapters for eight. No
    // bf16, no
    // TF32.
    std::string_view(R"(name: V100
memory: 32510MiB
per_host: 8
runtime: 1000MiB
fragmentation: 0.05
activations: f16
peak: {f32: 15.7e12, f16: 125e12}
memory_bandwidth: 900e9
call_seconds: 4e-6
efficiency: {product: 0.75, attention: 0.35, attention_backward: 0.3, stream: 0.85}
in_host: {bandwidth: 120e9, latency: 3.4e-6}
network: {bandwidth: 6e9, latency: 1.4e-5}
to_host: {bandwidth: 12e9, latency: 1e-5}
disk: {bandwidth: 2.5e9, latency: 1e-4}
)"),
    // MI300X 192 GB: 7 Infinity Fabric links of 64 GB/s each way, a 400 Gb/s adapter for each.
    std::string_view(R"(name: MI300X
memory: 196592MiB
per_host: 8
runtime: 2500MiB
fragmentation: 0.05
activations: bf16
peak: {f32: 653.7e12, bf16: 1307.4e12, f16: 1307.4e12}
memory_bandwidth: 5.3e12
call_seconds: 4e-6
efficiency: {product: 0.5, attention: 0.3, attention_backward: 0.22, stream: 0.8}
in_host: {bandwidth: 310e9, latency: 5e-6}
network: {bandwidth: 47e9, latency: 1.4e-5}
to_host: {bandwidth: 50e9, latency: 1e-5}
disk: {bandwidth: 6.7e9, latency: 1e-4}
)"),
};

const std::vector<DeviceModel>& Catalogue() {
  static const std::vector<DeviceModel> catalogue = [] {
    std::vector<DeviceModel> devices;
    for (const std::string_view text : kEntries) {
      absl::StatusOr<DeviceModel> device = ParseDevice(text, "the built-in catalogue");
      assert(device.ok());
      if (device.ok()) devices.push_back(*std::move(device));
    }
    return devices;
  }();
  return catalogue;
}

}  // namespace

std::vector<std::string> DeviceNames() {
  std::vector<std::string> names;
  for (const DeviceModel& device : Catalogue()) names.push_back(device.name);
  return names;
}

std::optional<DeviceModel> FindDevice(std::string_view name) {
  for (const DeviceModel& device : Catalogue()) {
    if (Lower(device.name) == Lower(name)) return device;
  }
  return std::nullopt;
}

}  // namespace ftune
