#include "cmd/bench/op_rates.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "cmd/bench/op_calls.h"
#include "cmd/bench/stopwatch.h"

namespace ftune {
namespace {

// A block's activations are some megabytes: what comes from the caches, and what does not, is as in a step.
constexpr CallSizes kLarge = {.tokens = 1024, .cols = 1536};
constexpr CallSizes kTiny = {.tokens = 4, .cols = 64};

constexpr int64_t kTrainedSizes[] = {8, 16, 32, 64, 128, 256, 512, 1024};
constexpr int64_t kFrozenSizes[] = {16, 64, 256, 1024};
constexpr DType kFrozenTypes[] = {DType::kBF16, DType::kF16,  DType::kNF4,
                                  DType::kInt8, DType::kQ8_0, DType::kQ4_K};

// Adds up what ops ask for.
class WorkSum final : public OpListener {
 public:
  void OnOp(const OpWork& work) override {
    flops += work.flops;
    bytes += work.bytes;
  }
  double flops = 0.0, bytes = 0.0;
};

struct Measured {
  double flops = 0.0, bytes = 0.0;
  double seconds = 0.0;
  double calls = 0.0;
};

absl::StatusOr<Measured> MeasureCalls(Backend& backend, Communicator& ranks,
                                      const std::vector<std::function<void()>>& calls) {
  WorkSum work;
  backend.set_op_listener(&work);
  for (const std::function<void()>& call : calls) call();
  backend.set_op_listener(nullptr);
  Measured sum = {.flops = work.flops, .bytes = work.bytes, .calls = static_cast<double>(calls.size())};
  for (const std::function<void()>& call : calls) {
    FTUNE_ASSIGN_OR_RETURN(const double seconds, SecondsOf(ranks, call));
    sum.seconds += seconds;
  }
  return sum;
}

// What is left of the time of calls when each has taken `seconds`: at least a tenth.
double RestOf(const Measured& measured, double seconds) {
  return std::max(measured.seconds - measured.calls * seconds, 0.1 * measured.seconds);
}

}  // namespace

absl::StatusOr<OpRates> MeasureOps(Backend& backend, Communicator& ranks) {
  OpRates reached;
  for (size_t i = 0; i < kOpClasses; ++i) {
    const auto op = static_cast<OpClass>(i);
    OpRate& rate = reached.rates[i];
    FTUNE_ASSIGN_OR_RETURN(const Measured tiny, MeasureCalls(backend, ranks, CallsOf(op, backend, kTiny)));
    rate.seconds = tiny.seconds / tiny.calls;
    if (op == OpClass::kProduct) continue;
    FTUNE_ASSIGN_OR_RETURN(const Measured large, MeasureCalls(backend, ranks, CallsOf(op, backend, kLarge)));
    // Attention is limited by what it computes, the others by what they read and write.
    const bool computes = large.flops > 0;
    (computes ? rate.flops : rate.bytes) =
        (computes ? large.flops : large.bytes) / RestOf(large, rate.seconds);
  }
  const auto index = [](OpClass op) { return static_cast<size_t>(op); };
  OpRate& product = reached.rates[index(OpClass::kProduct)];
  product.bytes = reached.rates[index(OpClass::kCopy)].bytes;

  const auto measure = [&](DType type, int64_t smallest) -> absl::Status {
    FTUNE_ASSIGN_OR_RETURN(const Measured calls,
                           MeasureCalls(backend, ranks, ProductCalls(backend, type, smallest)));
    reached.products[type].push_back({smallest, calls.flops / RestOf(calls, product.seconds)});
    return absl::OkStatus();
  };
  for (const int64_t smallest : kTrainedSizes) FTUNE_RETURN_IF_ERROR(measure(DType::kF32, smallest));
  for (const DType type : kFrozenTypes) {
    for (const int64_t smallest : kFrozenSizes) {
      // A row of inputs is whole blocks of a quantised type.
      if (smallest % BlockSize(type) == 0) FTUNE_RETURN_IF_ERROR(measure(type, smallest));
    }
  }
  return reached;
}

}  // namespace ftune
