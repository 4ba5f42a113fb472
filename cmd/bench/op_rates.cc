#include "cmd/bench/op_rates.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
#include "cmd/bench/op_calls.h"
#include "cmd/bench/stopwatch.h"

namespace ftune {
namespace {

// A block's activations are some megabytes, and have left the caches when their turn comes again.
constexpr CallSizes kLarge = {.tokens = 1024, .cols = 1536};
constexpr int kSetsOfOperands = 8;
// Other work on the machine comes and goes.
constexpr int kPasses = 3;
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

using Calls = std::vector<std::function<void()>>;

// Of the same calls with several sets of operands, of which each call has the next one.
absl::StatusOr<Measured> MeasureCalls(Backend& backend, Communicator& ranks, const std::vector<Calls>& sets) {
  WorkSum work;
  backend.set_op_listener(&work);
  for (const std::function<void()>& call : sets.front()) call();
  backend.set_op_listener(nullptr);
  const size_t calls = sets.front().size();
  Measured sum = {.flops = work.flops, .bytes = work.bytes, .calls = static_cast<double>(calls)};
  for (size_t i = 0; i < calls; ++i) {
    size_t turn = 0;
    FTUNE_ASSIGN_OR_RETURN(const double seconds, SecondsOf(ranks, [&] { sets[turn++ % sets.size()][i](); }));
    sum.seconds += seconds;
  }
  return sum;
}

absl::StatusOr<Measured> MeasureLarge(Backend& backend, Communicator& ranks, OpClass op) {
  std::vector<Calls> sets;
  for (int i = 0; i < kSetsOfOperands; ++i) sets.push_back(CallsOf(op, backend, kLarge));
  return MeasureCalls(backend, ranks, sets);
}

// What is left of the time of calls when each has taken `seconds`: at least a tenth.
double RestOf(const Measured& measured, double seconds) {
  return std::max(measured.seconds - measured.calls * seconds, 0.1 * measured.seconds);
}

absl::StatusOr<OpRates> MeasureOnce(Backend& backend, Communicator& ranks) {
  OpRates reached;
  for (size_t i = 0; i < kOpClasses; ++i) {
    const auto op = static_cast<OpClass>(i);
    OpRate& rate = reached.rates[i];
    FTUNE_ASSIGN_OR_RETURN(const Measured tiny, MeasureCalls(backend, ranks, {CallsOf(op, backend, kTiny)}));
    rate.seconds = tiny.seconds / tiny.calls;
    if (op == OpClass::kProduct) continue;
    FTUNE_ASSIGN_OR_RETURN(const Measured large, MeasureLarge(backend, ranks, op));
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
                           MeasureCalls(backend, ranks, {ProductCalls(backend, type, smallest)}));
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

// Of what the passes reached, the middle.
OpRates MiddleOf(std::vector<OpRates> passes) {
  const auto middle = [&](const auto& pick) {
    std::vector<double> values;
    for (OpRates& pass : passes) values.push_back(pick(pass));
    return Median(std::move(values));
  };
  OpRates reached = passes.front();
  for (size_t i = 0; i < kOpClasses; ++i) {
    for (const auto part : {&OpRate::flops, &OpRate::bytes, &OpRate::seconds}) {
      reached.rates[i].*part = middle([&](const OpRates& pass) { return pass.rates[i].*part; });
    }
  }
  for (auto& [dtype, rates] : reached.products) {
    for (size_t i = 0; i < rates.size(); ++i) {
      rates[i].flops =
          middle([&, type = dtype](const OpRates& pass) { return pass.products.at(type)[i].flops; });
    }
  }
  return reached;
}

}  // namespace

absl::StatusOr<OpRates> MeasureOps(Backend& backend, Communicator& ranks) {
  std::vector<OpRates> passes;
  for (int pass = 0; pass < kPasses; ++pass) {
    FTUNE_ASSIGN_OR_RETURN(OpRates reached, MeasureOnce(backend, ranks));
    passes.push_back(std::move(reached));
  }
  return MiddleOf(std::move(passes));
}

}  // namespace ftune
