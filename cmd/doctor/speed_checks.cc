// How fast this host computes, with the engine's own kernels on all cores that it may use.

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "base/monotonic_clock.h"
#include "cmd/doctor/host_checks.h"
#include "cmd/model_session.h"
#include "parallel/launch/core_shares.h"

namespace ftune {
namespace {

constexpr absl::Duration kLong = absl::Milliseconds(300);

int Threads() { return std::max(1, static_cast<int>(AllowedCores().size())); }

// The shortest time of a call, of as many as there is time for.
double BestSeconds(const std::function<void()>& call) {
  call();  // threads start, memory is there
  absl::Duration best = absl::InfiniteDuration();
  const absl::Duration end = MonotonicNow() + kLong;
  do {
    const absl::Duration begin = MonotonicNow();
    call();
    best = std::min(best, MonotonicNow() - begin);
  } while (MonotonicNow() < end);
  return absl::ToDoubleSeconds(best);
}

}  // namespace

Check MeasureMemory() {
  constexpr int64_t kRows = 4096, kCols = 4096;  // 64 MiB: more than caches have
  const std::unique_ptr<Backend> backend = MakeCpuBackend(Threads());
  const Tensor x = backend->Allocate(kRows, kCols, Category::kBuffers);
  const Tensor y = backend->Allocate(kRows, kCols, Category::kBuffers);
  backend->Zero(Stream(), x);
  backend->Zero(Stream(), y);
  const double seconds = BestSeconds([&] { backend->Add(Stream(), x, y); });
  const double bytes = 3.0 * sizeof(float) * kRows * kCols;  // two are read, one is written
  return {.name = "memory bandwidth",
          .detail = absl::StrFormat("%.1f GB/s, by sums of vectors on %d threads", bytes / seconds * 1e-9,
                                    Threads())};
}

Check MeasureProducts() {
  constexpr int64_t kSize = 1024;
  const std::unique_ptr<Backend> backend = MakeCpuBackend(Threads());
  const Tensor a = backend->Allocate(kSize, kSize, Category::kBuffers);
  const Tensor b = backend->Allocate(kSize, kSize, Category::kBuffers);
  const Tensor c = backend->Allocate(kSize, kSize, Category::kBuffers);
  for (const Tensor* x : {&a, &b}) backend->Zero(Stream(), *x);
  const double seconds = BestSeconds([&] { backend->MatMul(Stream(), {.a = a, .b = b, .c = c}); });
  return {.name = "matrix products",
          .detail = absl::StrFormat("%.1f GFLOP/s in f32, of %d x %d matrices on %d threads",
                                    2e-9 * kSize * kSize * kSize / seconds, kSize, kSize, Threads())};
}

}  // namespace ftune
