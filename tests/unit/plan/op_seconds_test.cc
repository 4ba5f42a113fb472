#include "engine/plan/op_seconds.h"

#include <doctest/doctest.h>

#include "engine/backend/cpu/cpu_workspace.h"
#include "engine/backend/meta/meta_backend.h"

namespace ftune {
namespace {

OpRate& RateOf(DeviceModel& device, OpClass op) { return device.rates[static_cast<size_t>(op)]; }

class Heard final : public OpListener {
 public:
  void OnOp(const OpWork& work) override { works.push_back(work); }
  std::vector<OpWork> works;
};

}  // namespace

TEST_CASE("an op takes what limits it, and what each call takes") {
  DeviceModel device;
  RateOf(device, OpClass::kAttention) = {.flops = 100.0, .bytes = 10.0, .seconds = 0.5};
  CHECK(OpSeconds(device, {.op = OpClass::kAttention, .flops = 200, .bytes = 10}) == doctest::Approx(2.5));
  CHECK(OpSeconds(device, {.op = OpClass::kAttention, .flops = 200, .bytes = 50}) == doctest::Approx(5.5));
  CHECK(OpSeconds(device, {.op = OpClass::kNorm, .bytes = 50}) == 0.0);  // nothing is known of it
}

TEST_CASE("a product's rate is interpolated between sizes, and stays beyond them") {
  DeviceModel device;
  device.products[DType::kF32] = {{8, 10.0}, {32, 40.0}};
  CHECK(ProductFlops(device, DType::kF32, 1) == 10.0);
  CHECK(ProductFlops(device, DType::kF32, 8) == 10.0);
  CHECK(ProductFlops(device, DType::kF32, 16) == doctest::Approx(20.0));
  CHECK(ProductFlops(device, DType::kF32, 32) == 40.0);
  CHECK(ProductFlops(device, DType::kF32, 4096) == 40.0);
  // Weights of a type that has no rate are converted to that of activations.
  CHECK(ProductFlops(device, DType::kNF4, 32) == 40.0);
  device.products[DType::kNF4] = {{8, 5.0}};
  CHECK(ProductFlops(device, DType::kNF4, 32) == 5.0);
}

TEST_CASE("a backend tells what each op asks of it") {
  MetaBackend backend(std::make_unique<CpuWorkspaceSizes>(1), DType::kBF16);
  Heard heard;
  const Tensor a = backend.Allocate(4, 16, Category::kActivations);
  const Tensor b = backend.Allocate(8, 16, Category::kWeights);
  const Tensor c = backend.Allocate(4, 8, Category::kActivations);
  CHECK(a.dtype() == DType::kBF16);
  CHECK(b.dtype() == DType::kF32);
  backend.set_op_listener(&heard);
  backend.MatMul(Stream(), {.a = a, .b = b, .trans_b = true, .c = c});
  {
    const RecomputeScope scope(backend);
    backend.Add(Stream(), a, a);
  }
  REQUIRE(heard.works.size() == 2);
  CHECK(heard.works[0].op == OpClass::kProduct);
  CHECK(heard.works[0].dtype == DType::kF32);
  CHECK(heard.works[0].flops == 2.0 * 4 * 8 * 16);
  CHECK(heard.works[0].bytes == 2.0 * 4 * 16 + 4.0 * 8 * 16 + 2.0 * 4 * 8);
  CHECK(heard.works[0].smallest == 4);
  CHECK_FALSE(heard.works[0].recomputed);
  CHECK(heard.works[1].op == OpClass::kCopy);
  CHECK(heard.works[1].bytes == 3 * 2.0 * 4 * 16);
  CHECK(heard.works[1].recomputed);
}

}  // namespace ftune
