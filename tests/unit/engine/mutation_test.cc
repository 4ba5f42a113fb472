// Every collective of a step is left out once, on all ranks: the comparison with one rank must see it.
#include "tests/unit/engine/mutation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

TEST_SUITE_BEGIN("parity");

namespace ftune::testing {
namespace {

TEST_CASE("a collective that is left out is seen, whichever it is") {
  const MeshShape square = {.tensor = 2, .data = 2};
  for (const int zero : {0, 1, 2, 3}) {
    for (const bool sequence : {false, true}) {
      CHECK(LeaveOutEach("llama", ModelOf(kLlama), {square, zero, sequence, 1}) > 20);
    }
  }
  // Norms of q and k; several microbatches; adapters on what is frozen.
  CHECK(LeaveOutEach("qwen3", ModelOf(kQwen3), {square, 2, true, 3}) > 90);
  CHECK(LeaveOutEach("qwen3 with LoRA", ModelOf(kQwen3, true), {square, 3, true, 1}) > 20);
  CHECK(LeaveOutEach("gpt2", ModelOf(kGpt2), {square, 3, false, 1}) > 20);
  CHECK(LeaveOutEach("gemma2", ModelOf(kGemma2), {square, 0, true, 1}) > 20);
  // Copies of shards.
  for (const int zero : {1, 2, 3}) {
    TinyOptions copies = ModelOf(kLlama);
    copies.sharding.shard_size = 2;
    CHECK(LeaveOutEach("llama, copies of shards", copies, {{.data = 4}, zero, false, 1}) > 15);
  }
  // Keys and values on pairs of ranks.
  CHECK(LeaveOutEach("llama", ModelOf(kLlama), {{.tensor = 4}, 0, true, 1}) > 20);
}

// What two ranks call in a step on one microbatch each.
struct StepCalls {
  CallPlace same_step, stop, finite;  // agreements
  CallPlace norm, loss;               // sums of scalars
  std::set<CallPlace> gradients;      // reduced over the data axis
};

StepCalls CallsOf(const TinyOptions& options) {
  CallLog log;
  const CallFaults none;
  StepOnTwo([](int rank) { return RankStep{InputOf(rank)}; }, options, Faulty({.data = 2}, none, &log));
  std::vector<CallPlace> agreements, scalars;
  StepCalls calls;
  for (const LoggedCall& call : log.Take()) {
    if (call.place.group == "world") {
      agreements.push_back(call.place);
    } else if (call.signature.dtype == DType::kF64) {
      scalars.push_back(call.place);
    } else if (call.signature.kind != CallKind::kAllGather) {
      calls.gradients.insert(call.place);
    }
  }
  REQUIRE(agreements.size() == 4);  // the last one of what the step took
  calls.same_step = agreements[0], calls.stop = agreements[1], calls.finite = agreements[2];
  // With all on every rank there is no sum of norms.
  REQUIRE(scalars.size() == (options.sharding.zero == 0 ? 1 : 2));
  calls.norm = scalars.front(), calls.loss = scalars.back();
  return calls;
}

using Outputs = std::vector<absl::StatusOr<StepOutput>>;

bool AllOf(const Outputs& outputs, const std::function<bool(const StepOutput&)>& right) {
  return std::all_of(outputs.begin(), outputs.end(),
                     [&](const auto& output) { return output.ok() && right(*output); });
}

TEST_CASE("an agreement that is left out is seen where the ranks do not agree") {
  TinyOptions options = Sgd();
  options.sharding.zero = 1;
  const StepCalls calls = CallsOf(options);
  const auto run = [&](const std::function<RankStep(int)>& step, const CallFaults& faults) {
    return StepOnTwo(step, options, Faulty({.data = 2}, faults));
  };
  const auto same = [](int rank) { return RankStep{InputOf(rank)}; };

  const auto other_tokens = [](int rank) {
    RankStep step{InputOf(rank)};
    step.input.trained_tokens += rank;
    return step;
  };
  const auto refused = [](const Outputs& outputs) { return !outputs[0].ok() && !outputs[1].ok(); };
  CHECK(refused(run(other_tokens, {})));
  CHECK_FALSE(refused(run(other_tokens, {.left_out = {calls.same_step}})));

  const auto one_stops = [](int rank) { return RankStep{InputOf(rank), [rank] { return rank == 1; }}; };
  const auto stopped = [](const StepOutput& output) { return !output.completed; };
  CHECK(AllOf(run(one_stops, {}), stopped));
  CHECK_FALSE(AllOf(run(one_stops, {.left_out = {calls.stop}}), stopped));

  // One rank alone has a loss, or a norm, that is not a number.
  const auto no_loss = [](const StepOutput& output) { return std::isnan(output.loss); };
  CHECK(AllOf(run(same, {.spoiled = calls.loss}), no_loss));
  CHECK_FALSE(AllOf(run(same, {.left_out = {calls.finite}, .spoiled = calls.loss}), no_loss));
  options.step.loss_scaler = LossScalerOptions{};
  const auto overflown = [](const StepOutput& output) { return output.overflow; };
  CHECK(AllOf(run(same, {.spoiled = calls.norm}), overflown));
  CHECK_FALSE(AllOf(run(same, {.left_out = {calls.finite}, .spoiled = calls.norm}), overflown));
}

TEST_CASE("an overflow on one rank reaches the others twice: in the sums, and by the agreement") {
  // The other rank has nothing to train on: its gradients are zero.
  const auto step = [](int rank) {
    RankStep step{InputOf(0)};
    if (rank == 1) step.input.microbatches = {MakeBatch({{}, {}}, 24, 7)};
    return step;
  };
  const auto overflown = [](const StepOutput& output) { return output.overflow; };
  for (const int zero : {0, 1, 2, 3}) {
    CAPTURE(zero);
    TinyOptions options = Sgd();
    options.sharding.zero = zero;
    const StepCalls calls = CallsOf(options);
    options.step.loss_scaler = LossScalerOptions{.initial = 1e40};
    const auto run = [&](const std::set<CallPlace>& left_out) {
      const CallFaults faults = {.left_out = left_out};
      return AllOf(StepOnTwo(step, options, Faulty({.data = 2}, faults)), overflown);
    };
    std::set<CallPlace> sums = calls.gradients;
    if (zero > 0) sums.insert(calls.norm);
    CHECK(run({}));
    CHECK(run(sums));
    CHECK(run({calls.finite}));
    sums.insert(calls.finite);
    CHECK_FALSE(run(sums));
  }
}

}  // namespace
}  // namespace ftune::testing

TEST_SUITE_END();
